// States on a device: named slots, one per view, each holding the buffer with the state's newest content.
//
// A plugin cannot donate a part of a buffer, so K and V, views of one host buffer elsewhere, are two slots here, told
// apart by buffer and offset. A slot is made, zeroed on every device, when the first graph asks for it; graphs of all
// buckets share it and must agree on its type. A step replaces the buffers in the slot. Slots do not move. Used by the
// step loop's thread.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "pjrt/client.h"

namespace deepinfer::pjrt {

struct StateSlot {
  std::string name;
  ir::Type type;
  std::vector<Buffer> buffers;  // by device
};

class PjrtStates final : public backend::StateSet {
 public:
  // On the first `num_devices` devices.
  PjrtStates(std::shared_ptr<const Client> client, size_t num_devices, std::map<std::string, int64_t> bytes_by_buffer)
      : client_(std::move(client)), num_devices_(num_devices), bytes_(std::move(bytes_by_buffer)) {}

  size_t num_devices() const { return num_devices_; }
  void* Address(const std::string& /*buffer*/) const override { return nullptr; }
  Status Read(const std::string& buffer, int64_t offset, void* to, int64_t bytes) const override;
  Status Write(const std::string& buffer, int64_t offset, const void* from, int64_t bytes) override;
  // kNotFound: the buffer was not allocated; kInvalidArgument: the view does not fit it or an earlier graph's.
  Result<StateSlot*> Slot(const ir::Input& input, const ir::Type& type);

 private:
  using Key = std::pair<std::string, int64_t>;  // buffer and offset in elements
  // Of the slot that is exactly this part of a buffer; bytes.
  Result<Key> Find(const std::string& buffer, int64_t offset, int64_t bytes) const;

  std::shared_ptr<const Client> client_;
  size_t num_devices_;
  std::map<std::string, int64_t> bytes_;
  std::map<Key, StateSlot> slots_;
};

}  // namespace deepinfer::pjrt
