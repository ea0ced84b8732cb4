//! The way of a packet through the host, and the kernels on it.

mod kernel;
mod port;
mod vhost;
