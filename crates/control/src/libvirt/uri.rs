//! Where libvirt is.

/// Ways to a libvirtd of the same host: what stands behind `+` in a URI, <https://libvirt.org/uri.html>.
const LOCAL: [&str; 1] = ["unix"];

/// Whether the URI stays on this host; why not, if not. Nothing else is looked at: libvirt knows its drivers.
pub(super) fn local(uri: &str) -> Result<(), String> {
    let Some((scheme, rest)) = uri.split_once("://") else {
        return Err("no URI; right would be qemu:///system".to_string());
    };
    if let Some((_, way)) = scheme.split_once('+')
        && !LOCAL.contains(&way)
    {
        return Err(format!("`{way}` goes over a network; right would be qemu:///system"));
    }
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if !host.is_empty() {
        return Err(format!("`{host}` is another host; right would be {scheme}:///…"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The forms of <https://libvirt.org/uri.html>.
    #[test]
    fn networks_are_told_from_this_host() {
        for uri in [
            "qemu:///system",
            "qemu:///session",
            "test:///default",
            "qemu+unix:///system?socket=/run/libvirt/libvirt-sock",
            "ch:///system",
        ] {
            assert_eq!(local(uri), Ok(()), "{uri}");
        }
        for uri in [
            "qemu://host/system",
            "qemu+ssh:///system",
            "qemu+tls://host/system",
            "qemu+tcp:///system",
            "qemu+ext:///system?command=/bin/sh",
            "qemu+unix://host/system",
            "qemu:/system",
            "",
        ] {
            assert!(local(uri).is_err(), "{uri}");
        }
    }
}
