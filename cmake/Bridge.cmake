# The Rust static library of bridge/ as the target `deepinfer_bridge`.
#
# `cargo` comes from PATH first, whatever installed it; a Debian machine without one gets it from the packages
# `cargo-web` and `rustc-web` (Debian's plain `cargo` is too old, and `cargo-web` conflicts with `rustc`).
# One target folder for all presets: the library is always a release build, so nobody has to build it twice.

find_program(DEEPINFER_CARGO cargo PATHS $ENV{HOME}/.cargo/bin)
if(NOT DEEPINFER_CARGO)
  message(FATAL_ERROR "cargo was not found; on Debian: apt-get install cargo-web rustc-web")
endif()

set(bridge_dir ${PROJECT_SOURCE_DIR}/bridge)
set(bridge_target_dir ${PROJECT_SOURCE_DIR}/build/cargo)
set(bridge_library ${bridge_target_dir}/release/libdeepinfer_bridge.a)

# cargo leaves the library's time stamp alone when nothing changed; touch it so that the build settles.
add_custom_command(
  OUTPUT ${bridge_library}
  COMMAND ${CMAKE_COMMAND} -E env CARGO_TARGET_DIR=${bridge_target_dir}
          ${DEEPINFER_CARGO} build --release --locked --quiet --manifest-path ${bridge_dir}/Cargo.toml
  COMMAND ${CMAKE_COMMAND} -E touch ${bridge_library}
  DEPENDS ${bridge_dir}/Cargo.toml ${bridge_dir}/Cargo.lock
  DEPFILE ${bridge_target_dir}/release/libdeepinfer_bridge.d
  COMMENT "Building the Rust bridge"
  USES_TERMINAL VERBATIM)
add_custom_target(deepinfer_bridge_build DEPENDS ${bridge_library})

add_library(deepinfer_bridge STATIC IMPORTED GLOBAL)
set_target_properties(deepinfer_bridge PROPERTIES
  IMPORTED_LOCATION ${bridge_library}
  INTERFACE_INCLUDE_DIRECTORIES ${bridge_dir})
# What `cargo rustc --release -- --print native-static-libs` prints, less libc itself.
target_link_libraries(deepinfer_bridge INTERFACE gcc_s util rt pthread m dl)
add_dependencies(deepinfer_bridge deepinfer_bridge_build)
