//! What holds of the kernel's answers about interfaces.

use super::filter::{filter, hook};
use super::link::{IFINFOMSG, facts};
use super::netlink::{attributes, messages, nest, verdict};
use super::tcmsg::TCMSG;
use super::tree::{canonical, node, undo_rounding};
use super::{Link, Tree};

fn link() -> Link {
    Link { name: "eth0".to_string(), ifindex: 2 }
}

/// Any bytes as datagrams of rtnetlink's: what is in them is no longer than they are, and is written as it was.
pub fn netlink(bytes: &[u8]) {
    let mut length = 0;
    for (header, content) in messages(bytes) {
        length += 16 + content.len();
        let _ = verdict(header.flags, content);
        for fixed in [TCMSG, IFINFOMSG] {
            let Some((head, rest)) = content.split_at_checked(fixed) else { continue };
            let found = attributes(rest);
            let inside: usize = found.iter().map(|(_, value)| 4 + value.len()).sum();
            assert!(inside <= rest.len());
            assert_eq!(attributes(&nest(&found)), found);
            let answer = (head.to_vec(), found);
            let _ = (facts(&answer), hook(&answer), filter(&answer));
            if let Some(node) = node(&link(), &answer) {
                let options = node.bytes().expect("written as digits");
                assert_eq!(canonical(&node.kind, &options), options);
                let tree = Tree { disciplines: vec![node], ..Tree::default() };
                assert_eq!(Tree::parse(&tree.to_text()).expect("as written"), tree);
                for kind in ["codel", "fq_codel", "htb"] {
                    let _ = undo_rounding(kind, options.clone());
                }
            }
        }
    }
    assert!(length <= bytes.len());
}

/// Any bytes as disciplines that were written down: what is read is written the same and read again, and has an order.
pub fn tree_text(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(tree) = Tree::parse(&text) else { return };
    assert_eq!(Tree::parse(&tree.to_text()).expect("as written"), tree);
    let link = link();
    if let Ok(order) = tree.in_order(&link) {
        assert_eq!(order.len(), tree.disciplines.len() + tree.classes.len());
    }
    for node in tree.disciplines.iter().chain(&tree.classes) {
        let _ = node.bytes();
    }
}
