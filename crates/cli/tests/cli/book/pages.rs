//! The pages of docs/ and the documents of the root: their links, headings and blocks of code.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use crate::tree::{files, root};

/// A document.
pub(crate) struct Page {
    /// Below the root of the tree: `docs/tutorial.md`.
    pub(crate) name: String,
    pub(crate) text: String,
}

/// A link or a picture.
pub(crate) struct Link {
    pub(crate) line: usize,
    pub(crate) to: String,
}

/// A block of code. Its lines stand together in the page.
#[derive(Debug)]
pub(crate) struct Block {
    /// Where its first line is.
    pub(crate) line: usize,
    /// The words behind the fence, `sh host`; `None` if the block is indented.
    pub(crate) fence: Option<String>,
    pub(crate) text: String,
}

/// All of docs/, and those of the root, sorted by name.
pub(crate) fn all() -> Vec<Page> {
    let root = root();
    let mut found = files(&root.join("docs"), &[".md"]);
    for entry in fs::read_dir(&root).expect("the root").flatten() {
        found.extend(Some(entry.path()).filter(|path| path.extension().is_some_and(|e| e == "md")));
    }
    found.sort();
    let page = |path: PathBuf| Page {
        text: fs::read_to_string(&path).expect("a page in UTF-8"),
        name: path.strip_prefix(&root).ok().and_then(Path::to_str).expect("a name").to_string(),
    };
    found.into_iter().map(page).collect()
}

impl Page {
    fn events(&self) -> impl Iterator<Item = (Event<'_>, usize)> {
        let parser = Parser::new_ext(&self.text, Options::ENABLE_TABLES).into_offset_iter();
        parser.map(|(event, range)| (event, range.start))
    }

    /// The number of the line that has this byte, from 1 on.
    fn line(&self, at: usize) -> usize {
        self.text[..at].matches('\n').count() + 1
    }

    pub(crate) fn links(&self) -> Vec<Link> {
        let link = |(event, at)| match event {
            Event::Start(Tag::Link { dest_url: to, .. } | Tag::Image { dest_url: to, .. }) => {
                Some(Link { line: self.line(at), to: to.to_string() })
            }
            _ => None,
        };
        self.events().filter_map(link).collect()
    }

    /// What `#anchor` may name: each heading, in the way of forges and of mdBook.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let (mut anchors, mut seen) = (Vec::new(), BTreeMap::new());
        let mut heading: Option<String> = None;
        for (event, _) in self.events() {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                Event::End(TagEnd::Heading(_)) => {
                    let slug = slug(&heading.take().unwrap_or_default());
                    let count = seen.entry(slug.clone()).or_insert(0);
                    anchors.push(if *count == 0 { slug } else { format!("{slug}-{count}") });
                    *count += 1;
                }
                _ => {}
            }
        }
        anchors
    }

    pub(crate) fn blocks(&self) -> Vec<Block> {
        let (mut blocks, mut open): (Vec<Block>, Option<Block>) = (Vec::new(), None);
        for (event, at) in self.events() {
            match event {
                Event::Start(Tag::CodeBlock(kind)) => {
                    let line = self.line(at);
                    let (line, fence) = match kind {
                        CodeBlockKind::Fenced(words) => (line + 1, Some(words.to_string())),
                        CodeBlockKind::Indented => (line, None),
                    };
                    open = Some(Block { line, fence, text: String::new() });
                }
                Event::Text(text) => {
                    if let Some(block) = &mut open {
                        block.text.push_str(&text);
                    }
                }
                Event::End(TagEnd::CodeBlock) => blocks.extend(open.take()),
                _ => {}
            }
        }
        blocks
    }
}

/// Small letters, digits, `-` and `_` stay, blanks are `-`, and nothing else is left.
fn slug(heading: &str) -> String {
    let slug = heading.trim().to_lowercase();
    let slug = slug.chars().map(|c| if c.is_whitespace() { '-' } else { c });
    slug.filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
}
