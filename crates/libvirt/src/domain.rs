//! `<domain>`: a VM as `virsh dumpxml` prints it, or as a file below `/etc/libvirt/qemu`.

use std::fmt::{self, Display, Formatter};

use roxmltree::{Document, Node, ParsingOptions};

use crate::cpus::Cpus;
use crate::cputune::{Cputune, ThreadNumbers};
use crate::element::{attribute, elements, fault, number, text};
use crate::error::{DomainError, XmlError};
use crate::name::shown;

/// Largest file.
const FILE_BYTES_MAX: usize = 4 << 20;
/// Most nodes of a file.
const NODES_MAX: u32 = 200_000;
/// Most vCPUs and I/O threads of a VM.
const THREADS_MAX: i64 = 16_384;

/// A VM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// Its name, as it is in the file: not to be trusted.
    pub name: String,
    /// Numbers of the vCPUs that are online.
    pub vcpus: Vec<u32>,
    /// pCPUs for all its threads that have none of their own.
    pub cpuset: Option<Cpus>,
    /// Numbers of the I/O threads.
    pub iothreads: Vec<u32>,
    /// How its threads share the processors.
    pub cputune: Cputune,
    /// Where its elements are in the file.
    pub positions: Positions,
}

/// A place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

/// `2:1`, as it stands behind the file's name.
impl Display for Position {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Where elements of a VM begin, or the domain itself where it has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Positions {
    /// `<name>`.
    pub name: Position,
    /// `<vcpu>`.
    pub vcpu: Position,
    /// `<cputune>`.
    pub cputune: Position,
    /// `<shares>` of that.
    pub shares: Position,
}

impl Positions {
    fn of(document: &Document<'_>, domain: Node<'_, '_>) -> Self {
        let position = |node: Node<'_, '_>| {
            let at = document.text_pos_at(node.range().start);
            Position { line: at.row, column: at.col }
        };
        let first = |name| position(elements(domain, name).next().unwrap_or(domain));
        let tunes = elements(domain, "cputune");
        let shares = tunes.flat_map(|tune| elements(tune, "shares")).next();
        Positions {
            name: first("name"),
            vcpu: first("vcpu"),
            cputune: first("cputune"),
            shares: position(shares.unwrap_or(domain)),
        }
    }
}

impl Domain {
    /// Reads `text`, called `file` in errors. What it does not know it leaves alone, so that
    /// files of any version of libvirt can be read.
    ///
    /// # Errors
    /// If it is no domain, or one that libvirt would refuse.
    pub fn parse(file: &str, text: &str) -> Result<Self, DomainError> {
        read(text).map_err(|fault| fault.within(file, text))
    }
}

/// `text` as XML, if it is some and not too much.
pub(crate) fn document(text: &str) -> Result<Document<'_>, XmlError> {
    if text.len() > FILE_BYTES_MAX {
        return Err(XmlError::new(0, format!("larger than {} MiB", FILE_BYTES_MAX >> 20)));
    }
    let options = ParsingOptions { allow_dtd: false, nodes_limit: NODES_MAX, ..Default::default() };
    Document::parse_with_options(text, options).map_err(|error| {
        let at = offset(text, error.pos().row, error.pos().col);
        XmlError::new(at, format!("no XML: {}", shown(&error.to_string())))
    })
}

/// The `<domain>` in it.
pub(crate) fn domain_of<'a, 'i>(document: &'a Document<'i>) -> Result<Node<'a, 'i>, XmlError> {
    let root = document.root_element();
    // Files below /run/libvirt/qemu have the domain in a <domstatus>.
    let domain = match root.tag_name().name() {
        "domain" => Some(root),
        "domstatus" => elements(root, "domain").next(),
        _ => None,
    };
    domain.ok_or_else(|| {
        let message = format!(
            "no VM of libvirt's: it begins with <{}>, not with <domain>",
            shown(root.tag_name().name())
        );
        XmlError::new(root.range().start, message)
    })
}

fn read(text: &str) -> Result<Domain, XmlError> {
    let document = document(text)?;
    let domain = domain_of(&document)?;
    let name = elements(domain, "name").next().map(crate::element::text).unwrap_or_default();
    if name.is_empty() {
        return Err(XmlError::new(domain.range().start, "<name> is missing"));
    }
    let (most, vcpus, cpuset) = vcpus(domain)?;
    let iothreads = iothreads(domain)?;
    let numbers = ThreadNumbers { vcpus: most, iothreads: &iothreads };
    let cputune = Cputune::read(domain, &numbers)?;
    let positions = Positions::of(&document, domain);
    Ok(Domain { name, vcpus, cpuset, iothreads, cputune, positions })
}

/// How many vCPUs there can be, the numbers of those that are online, and where they may run.
fn vcpus(domain: Node<'_, '_>) -> Result<(u32, Vec<u32>, Option<Cpus>), XmlError> {
    let (mut most, mut now, mut cpuset) = (1, 1, None);
    if let Some(node) = elements(domain, "vcpu").next() {
        most = count(node, &text(node), 1)?;
        now = node.attribute("current").map_or(Ok(most), |current| count(node, current, 1))?;
        if now > most {
            return Err(fault(node, format!("current {now} of {most} vCPUs")));
        }
        let list = node.attribute("cpuset");
        if let Some(list) = list.filter(|_| node.attribute("placement") != Some("auto")) {
            let list = Cpus::parse(list);
            cpuset = Some(list.map_err(|message| fault(node, format!("cpuset: {message}")))?);
        }
    }
    // Single vCPUs count for more, where they are listed.
    let single: Vec<Node<'_, '_>> =
        elements(domain, "vcpus").flat_map(|vcpus| elements(vcpus, "vcpu")).collect();
    if single.is_empty() {
        return Ok((most, (0..now).collect(), cpuset));
    }
    let mut online = Vec::new();
    for node in single {
        let id: u32 = attribute(node, "id")?;
        if id >= most {
            return Err(fault(node, format!("id {id}: there are vCPUs 0 to {}", most - 1)));
        }
        match node.attribute("enabled") {
            Some("yes") => online.push(id),
            Some("no") => {}
            _ => return Err(fault(node, "enabled: `yes` or `no`")),
        }
    }
    online.sort_unstable();
    online.dedup();
    if online.is_empty() {
        return Err(XmlError::new(domain.range().start, "no vCPU is online"));
    }
    Ok((most, online, cpuset))
}

/// The numbers of the I/O threads: those that are listed, and as many more from 1 up as make
/// their number.
fn iothreads(domain: Node<'_, '_>) -> Result<Vec<u32>, XmlError> {
    let node = elements(domain, "iothreads").next();
    let wanted = node.map_or(Ok(0), |node| count(node, &text(node), 0))?;
    let mut numbers = Vec::new();
    for node in elements(domain, "iothreadids").flat_map(|ids| elements(ids, "iothread")) {
        let id: u32 = attribute(node, "id")?;
        if id == 0 || numbers.contains(&id) || numbers.len() as i64 == THREADS_MAX {
            return Err(fault(node, format!("id {id}: numbers from 1, each once")));
        }
        numbers.push(id);
    }
    let mut taken = numbers.clone();
    taken.sort_unstable();
    let free = (1..).filter(|n| taken.binary_search(n).is_err());
    let missing = (wanted as usize).saturating_sub(numbers.len());
    numbers.extend(free.take(missing));
    numbers.sort_unstable();
    Ok(numbers)
}

fn count(node: Node<'_, '_>, text: &str, least: i64) -> Result<u32, XmlError> {
    let n = number(text).map_err(|message| fault(node, message))?;
    if !(least..=THREADS_MAX).contains(&n) {
        return Err(fault(node, format!("{n}: {least} to {THREADS_MAX}")));
    }
    Ok(n as u32)
}

/// The byte at a line and a column, both from 1.
fn offset(text: &str, line: u32, column: u32) -> usize {
    let line = line.saturating_sub(1) as usize;
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let rest = &text[start.min(text.len())..];
    let chars = rest.chars().take(column.saturating_sub(1) as usize);
    start + chars.map(char::len_utf8).sum::<usize>()
}
