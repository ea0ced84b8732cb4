//! What can be wrong with a scenario file, and where.

use std::ops::Range;

/// Why an experiment cannot be loaded or run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A place in a file and what is wrong there.
    #[error("{file}:{line}:{column}: {message}")]
    At {
        /// The file as the user named it.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// What is wrong, and what would be right.
        message: String,
    },
    /// A file that is wrong as a whole.
    #[error("{file}: {message}")]
    File {
        /// The file as the user named it.
        file: String,
        /// What is wrong with it.
        message: String,
    },
    /// No experiment has this name.
    #[error("no experiment is called `{name}`{hint}")]
    NoSuchExperiment {
        /// The name asked for.
        name: String,
        /// A nearby name, if there is one.
        hint: String,
    },
    /// No case of the experiment has this name.
    #[error("{experiment}: no case is called `{name}`; {hint}")]
    NoSuchCase {
        /// The experiment.
        experiment: String,
        /// The name asked for.
        name: String,
        /// A nearby name, or some of them.
        hint: String,
    },
    /// No link to look at.
    #[error("{experiment}, case `{case}`: {message}")]
    NoSuchLink {
        /// The experiment.
        experiment: String,
        /// The case.
        case: String,
        /// What is wrong, and what would be right.
        message: String,
    },
    /// No scheduler has this name.
    #[error("no scheduler is called `{name}`; {hint}")]
    NoSuchScheduler {
        /// The name asked for.
        name: String,
        /// A nearby name, or all of them.
        hint: String,
    },
    /// The simulator itself failed: a bug of ours.
    #[error("{experiment}, case `{case}`, seed {seed}: the simulator failed: {message}")]
    Simulator {
        /// The experiment.
        experiment: String,
        /// The case.
        case: String,
        /// The seed that repeats it.
        seed: u64,
        /// What the failed check said.
        message: String,
    },
}

impl Error {
    /// Whether the input file is at fault, not the simulator or the disk.
    pub fn is_bad_input(&self) -> bool {
        !matches!(self, Error::Simulator { .. })
    }
}

/// Something wrong at a span of bytes of a text that is known elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) span: Range<usize>,
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Fault { span, message: message.into() }
    }

    /// The error for the user: line and column instead of bytes.
    pub(crate) fn locate(self, file: &str, text: &str) -> Error {
        let (line, column) = line_and_column(text, self.span.start);
        Error::At { file: file.to_string(), line, column, message: self.message }
    }
}

/// Line and column (in characters), both from 1, of the byte at `offset`.
fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let mut end = offset.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &text[..end];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// Something wrong with the value at a path of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bad {
    pub(crate) path: Vec<String>,
    pub(crate) message: String,
}

impl Bad {
    pub(crate) fn new(key: &str, message: impl Into<String>) -> Self {
        Bad { path: vec![key.to_string()], message: message.into() }
    }

    /// The same, seen from further up.
    pub(crate) fn under(mut self, prefix: &[&str]) -> Self {
        self.path.splice(0..0, prefix.iter().map(|key| key.to_string()));
        self
    }
}

/// Names that are listed at most.
const NAMES_MOST: usize = 12;

/// What to say about a name that is not one of `known`: which of them may be meant, or which
/// there are.
pub(crate) fn hint<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    if let Some(near) = nearest(name, known.clone()) {
        return format!("did you mean `{near}`?");
    }
    let mut names: Vec<&str> = known.take(NAMES_MOST + 1).collect();
    if names.is_empty() {
        return "there are none".to_owned();
    }
    if names.len() > NAMES_MOST {
        names[NAMES_MOST] = "…";
    }
    format!("there are {}", names.join(", "))
}

/// The candidate that differs from `word` by the fewest edits, if it is near enough to be
/// what was meant.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    if word.len() > 100 {
        return None;
    }
    let limit = 1 + word.chars().count() / 4;
    candidates
        .into_iter()
        .map(|candidate| (edits(word, candidate), candidate))
        .filter(|&(distance, _)| distance <= limit)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance, in which swapping two neighbours counts as one edit.
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let same = usize::from(a[i - 1] != b[j - 1]);
            let mut cost = (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + same);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                cost = cost.min(rows[i - 2][j - 2] + 1);
            }
            row.push(cost);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_in_characters() {
        let text = "a\nµ = 5\n";
        assert_eq!(line_and_column(text, 0), (1, 1));
        assert_eq!(line_and_column(text, text.find('5').unwrap()), (2, 5));
        assert_eq!(line_and_column(text, 999), (3, 1));
    }

    #[test]
    fn near_words_are_found() {
        let keys = ["ratelimit", "runqueue", "version"];
        assert_eq!(nearest("ratelmiit", keys), Some("ratelimit"));
        assert_eq!(nearest("rate_limit", keys), Some("ratelimit"));
        assert_eq!(nearest("colour", keys), None);
        assert_eq!((edits("ab", "ba"), edits("", "abc"), edits("kitten", "sitting")), (1, 3, 3));
    }
}
