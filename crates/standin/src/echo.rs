//! A service that gives back what it gets, by UDP and TCP.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};

/// Connections at the same time; more are closed.
const CONNECTIONS_MAX: usize = 64;
/// How long it takes at most to notice that it shall end, in milliseconds.
const PATIENCE_MS: u16 = 100;

/// Both sockets, on the same port.
#[derive(Debug)]
pub(crate) struct Echo {
    udp: UdpSocket,
    tcp: TcpListener,
    connections: Vec<TcpStream>,
}

impl Echo {
    pub(crate) fn new(at: SocketAddr) -> io::Result<Self> {
        let tcp = TcpListener::bind(at)?;
        // With port 0 the kernel has chosen one.
        let udp = UdpSocket::bind(tcp.local_addr()?)?;
        tcp.set_nonblocking(true)?;
        udp.set_nonblocking(true)?;
        Ok(Echo { udp, tcp, connections: Vec::new() })
    }

    /// Answers until it shall end; gives the number of answers.
    pub(crate) fn serve(&mut self, end: &AtomicBool) -> io::Result<u64> {
        let mut answers = 0;
        let mut bytes = [0; 65_536];
        while !end.load(Ordering::Relaxed) {
            let mut fds = vec![
                PollFd::new(self.udp.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.tcp.as_fd(), PollFlags::POLLIN),
            ];
            let of_connection =
                self.connections.iter().map(|tcp| PollFd::new(tcp.as_fd(), PollFlags::POLLIN));
            fds.extend(of_connection);
            match poll(&mut fds, PATIENCE_MS) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            drop(fds);
            while let Ok((n, from)) = self.udp.recv_from(&mut bytes) {
                answers += u64::from(self.udp.send_to(&bytes[..n], from).is_ok());
            }
            while let Ok((connection, _)) = self.tcp.accept() {
                let ready =
                    connection.set_nonblocking(true).and_then(|()| connection.set_nodelay(true));
                if ready.is_ok() && self.connections.len() < CONNECTIONS_MAX {
                    self.connections.push(connection);
                }
            }
            self.connections.retain_mut(|connection| match connection.read(&mut bytes) {
                Ok(0) => false,
                // Who does not take its answer is let go.
                Ok(n) => {
                    answers += 1;
                    connection.write_all(&bytes[..n]).is_ok()
                }
                Err(error) => error.kind() == io::ErrorKind::WouldBlock,
            });
        }
        Ok(answers)
    }
}
