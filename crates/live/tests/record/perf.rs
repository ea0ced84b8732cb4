//! `lowtail trace` of perf's own recording, against what perf says of it.
