//! Tables of `xl` whose first column is the name of a domain or of a pool.
//!
//! Who makes a domain chooses its name, and `xl` prints it as it is: with spaces, and with ends of lines. A row counts only if it begins with a name that is
//! known from elsewhere, and the number behind it is that name's.

use std::collections::BTreeMap;

use crate::toolstack::DomainId;

/// A row for one domain: its number, and the columns behind that.
pub(crate) type Row<'a> = (DomainId, Vec<&'a str>);

/// The rows of domains that are in `names`, with so many columns behind the number.
///
/// # Errors
/// If a name has an end of a line or another control character: then a row may be a part of a name.
pub(crate) fn rows<'a>(
    text: &'a str,
    columns: usize,
    names: &BTreeMap<DomainId, String>,
) -> Result<Vec<Row<'a>>, String> {
    if let Some((id, name)) = names.iter().find(|(_, name)| name.contains(char::is_control)) {
        let name = lowtail_out::name(name);
        return Err(format!(
            "domain {id} is called `{name}`: with a control character in a name, tables of xl cannot be told apart; \
             `xl rename {id} NAME` gives it another"
        ));
    }
    // A name may begin with another one, and with what would be its number: the longest that fits is it.
    let mut longest: Vec<(DomainId, &str)> =
        names.iter().map(|(&id, name)| (id, name.as_str())).collect();
    longest.sort_by_key(|(id, name)| (std::cmp::Reverse(name.len()), *id));
    Ok(text.lines().filter_map(|line| row(line, columns, &longest)).collect())
}

fn row<'a>(line: &'a str, count: usize, names: &[(DomainId, &str)]) -> Option<Row<'a>> {
    names.iter().find_map(|&(id, name)| {
        let rest = line.strip_prefix(name)?;
        if !rest.starts_with(' ') {
            return None;
        }
        let mut columns = rest.split_whitespace();
        let is_its = columns.next()?.parse::<DomainId>().is_ok_and(|found| found == id);
        let columns: Vec<&str> = columns.collect();
        (is_its && columns.len() == count).then_some((id, columns))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[(DomainId, &str)]) -> BTreeMap<DomainId, String> {
        names.iter().map(|&(id, name)| (id, name.to_string())).collect()
    }

    #[test]
    fn a_name_is_no_row() {
        let known = names(&[(0, "Domain-0"), (1, "web"), (2, "web 1"), (3, "")]);
        let text = "Name  ID  W\nDomain-0   0 256\nweb    1 512\nweb 1   2 100\nother 9 1\n 3 7\nweb x\nweb 1\n";
        let rows = rows(text, 1, &known).expect("names of one line");
        let rows: Vec<_> = rows.iter().map(|(id, columns)| (*id, columns.join(","))).collect();
        let expected = [(0, "256"), (1, "512"), (2, "100"), (3, "7")];
        assert_eq!(rows, expected.map(|(id, weight)| (id, weight.to_string())));
    }

    #[test]
    fn an_end_of_line_in_a_name_is_said() {
        let known = names(&[(1, "web"), (2, "x\nweb 1 9")]);
        let said = rows("web 1 2\n", 1, &known).expect_err("it cannot be told");
        assert!(said.contains("domain 2") && said.contains("\\u{a}"), "{said}");
        assert!(!said.contains('\n'), "{said}");
    }
}
