//! Sockets of the ends, in their namespaces.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use lowtail_net::tcp::Control;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockProtocol, SockType, SockaddrIn, bind, connect, listen,
    setsockopt, socket, sockopt,
};

/// How long anybody waits before it looks whether the run is over.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// A socket of TCP at `own`, with its congestion control.
fn tcp(own: SocketAddrV4, control: Control) -> io::Result<OwnedFd> {
    let fd =
        socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, SockProtocol::Tcp)?;
    setsockopt(&fd, sockopt::ReuseAddr, &true)?;
    setsockopt(&fd, sockopt::TcpNoDelay, &true)?;
    let name = match control {
        Control::Reno => "reno",
        Control::Cubic => "cubic",
        Control::Dctcp => "dctcp",
    };
    setsockopt(&fd, sockopt::TcpCongestion, &name.into())?;
    bind(fd.as_raw_fd(), &SockaddrIn::from(own))?;
    Ok(fd)
}

/// One that listens. Connections that it accepts inherit its congestion control.
pub(super) fn listener(own: SocketAddrV4, control: Control) -> io::Result<TcpListener> {
    let fd = tcp(own, control)?;
    listen(&fd, Backlog::new(1024)?)?;
    Ok(TcpListener::from(fd))
}

/// A connection from `own` to `other`.
pub(super) fn connection(
    own: Ipv4Addr,
    other: SocketAddrV4,
    control: Control,
) -> io::Result<TcpStream> {
    let fd = tcp(SocketAddrV4::new(own, 0), control)?;
    connect(fd.as_raw_fd(), &SockaddrIn::from(other))?;
    Ok(TcpStream::from(fd))
}

/// A socket of UDP at `own`.
pub(super) fn datagrams(own: SocketAddrV4) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(own)?;
    socket.set_read_timeout(Some(LOOK))?;
    Ok(socket)
}

/// A socket that sends echo requests from `own` and receives the answers to them, icmp(7).
pub(super) fn echoes(own: Ipv4Addr) -> io::Result<UdpSocket> {
    let fd = socket(
        AddressFamily::Inet,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::Icmp,
    )?;
    bind(fd.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(own, 0)))?;
    // Not of UDP, but it is sent to and received from as one of that.
    let socket = UdpSocket::from(fd);
    socket.set_read_timeout(Some(LOOK))?;
    Ok(socket)
}
