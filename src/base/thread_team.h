// A persistent team of threads that runs one function on every member and waits: the only way kernels use threads.
//
// The caller is member 0. Members spin briefly, then park. Run() is for one caller at a time (the step loop); it
// allocates nothing. Every member runs with FTZ/DAZ set and the caller's state is restored afterwards, so that a result
// does not depend on which thread computed it. Members may be pinned to CPUs: the team's own threads for as long as
// they live, the caller, whichever thread that is, while it is in Run().
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace deepinfer {

// A non-owning reference to a callable void(int member, int members); the callable must outlive the call it is passed
// to.
class TeamFunction {
 public:
  template <class F>
  TeamFunction(F& function)  // NOLINT: implicit on purpose
      : object_(&function),
        call_([](void* object, int member, int members) { (*static_cast<F*>(object))(member, members); }) {}
  void operator()(int member, int members) const { call_(object_, member, members); }

 private:
  void* object_;
  void (*call_)(void*, int, int);
};

class ThreadTeam {
 public:
  // members: >= 1. cpus: what each is pinned to, as PlanTeam says (team_plan.h); empty: none is.
  explicit ThreadTeam(int members, const std::vector<std::vector<int>>& cpus = {});
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int members() const;
  // Whether each of the team's own threads has the CPUs it was to have; false where there were none to have.
  bool pinned() const;
  // Runs function(member, members) on every member; returns when all are done.
  void Run(TeamFunction function);
  // Inside a Run: waits until every member has arrived. All memory written before is visible after.
  void Barrier();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Part `member` of `members` of [0, total), cut at multiples of `grain`.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};
Range SplitRange(int64_t total, int64_t grain, int member, int members);

}  // namespace deepinfer
