//! Unknown names, and the known ones that may be meant.

/// Names that are listed at most.
const NAMES_MOST: usize = 12;

/// What to say about a name that is not one of `known`: which of them may be meant, or which
/// there are.
pub fn hint<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
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
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // What is so long is no slip of the finger, and takes its time to be compared.
    let short = |text: &str| text.len() <= 100;
    if !short(word) {
        return None;
    }
    let limit = 1 + word.chars().count() / 4;
    candidates
        .into_iter()
        .filter(|candidate| short(candidate))
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
    fn near_words_are_found() {
        let keys = ["ratelimit", "runqueue", "version"];
        assert_eq!(nearest("ratelmiit", keys), Some("ratelimit"));
        assert_eq!(nearest("rate_limit", keys), Some("ratelimit"));
        assert_eq!(nearest("colour", keys), None);
        assert_eq!((edits("ab", "ba"), edits("", "abc"), edits("kitten", "sitting")), (1, 3, 3));
    }
}
