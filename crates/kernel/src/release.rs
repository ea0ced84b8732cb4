//! What kernels call themselves.

/// The first two numbers of a release such as `6.12.48+deb13-amd64`, or of what Xen calls itself.
pub fn version(name: &str) -> Option<(u32, u32)> {
    let mut numbers = name.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let mut next = || numbers.next().and_then(Result::ok);
    Some((next()?, next()?))
}
