//! Queueing disciplines and byte queue limits: what must hold for each of them on random traffic,
//! and what the documents that they come from say.
//!
//! A random test that fails prints its input, made small, and the seed that repeats it.

mod bed;
mod cake;
mod codel;
mod conservation;
mod dql;
mod fair;
mod htb;
mod packet;
mod small_first;
mod split;
mod tbf;
