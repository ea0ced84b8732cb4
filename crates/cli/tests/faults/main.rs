//! What goes wrong around `lowtail host`: no memory for maps, files that cannot be opened, processes that are hidden, a clock that
//! jumps. Each is made to happen; each has to be told, and nothing may be left behind or taken for gone.
//!
//! Needs root, a C compiler, QEMU and Debian's archive: without them the tests say so and pass, unless `CI` is set.

mod guest;
#[path = "../kernels/said.rs"]
#[allow(dead_code, reason = "the other test wants more of it")]
mod said;
mod unseen;

use lowtail_testkit::needs;
