//! What a person or a model types into a search, turned into something that
//! SQLite cannot misunderstand.

/// Trigrams need this many characters; shorter words are looked for by LIKE.
const SHORTEST_INDEXED: usize = 3;
const LONGEST_QUERY: usize = 1000;

/// Why a query means nothing. The message says what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct QueryProblem(String);

/// A query: every group must occur (one of its words), no word of `without` may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query {
    groups: Vec<Vec<String>>,
    without: Vec<String>,
}

impl Query {
    /// Words must all occur; `"…"` is one phrase; `a OR b`; `-word` or `NOT word`
    /// excludes. A `*` at the end of a word says nothing new: parts of words are found anyway.
    pub(crate) fn parse(text: &str) -> Result<Self, QueryProblem> {
        if text.chars().count() > LONGEST_QUERY {
            return Err(QueryProblem(format!(
                "the query is longer than {LONGEST_QUERY} characters; look for its most telling words"
            )));
        }
        let mut query = Self::default();
        let mut alternative = None; // where an OR stands that waits for its right side
        let mut exclude = None; // where a NOT stands that waits for its word
        for token in tokens(text)? {
            let word = match token.kind {
                Kind::Word(word) => match word.as_str() {
                    "AND" => continue,
                    "OR" => {
                        if query.groups.is_empty() || alternative.is_some() || exclude.is_some() {
                            return Err(needs_words("OR", token.at));
                        }
                        alternative = Some(token.at);
                        continue;
                    }
                    "NOT" => {
                        exclude = Some(token.at);
                        continue;
                    }
                    _ => word.trim_end_matches('*').to_owned(),
                },
                Kind::Phrase(phrase) => phrase,
            };
            if word.trim().is_empty() {
                continue;
            }
            if token.excluded || exclude.take().is_some() {
                query.without.push(word);
            } else if alternative.take().is_some()
                && let Some(group) = query.groups.last_mut()
            {
                group.push(word);
            } else {
                query.groups.push(vec![word]);
            }
        }
        if let Some(at) = alternative {
            return Err(needs_words("OR", at));
        }
        if let Some(at) = exclude {
            return Err(QueryProblem(format!(
                "`NOT` at character {at} needs a word after it; put it in quotation marks to look for it"
            )));
        }
        if query.groups.is_empty() {
            return Err(QueryProblem(if query.without.is_empty() {
                "the query is empty; give one or more words".into()
            } else {
                "the query only excludes words; name at least one to look for".into()
            }));
        }
        Ok(query)
    }

    /// The part that the index answers, as an FTS5 expression.
    pub(crate) fn indexed(&self) -> Option<String> {
        let groups: Vec<String> = self
            .groups
            .iter()
            .filter(|group| is_indexed(group))
            .map(|group| {
                let words: Vec<String> =
                    group.iter().map(|w| format!("\"{}\"", w.replace('"', "\"\""))).collect();
                format!("({})", words.join(" OR "))
            })
            .collect();
        (!groups.is_empty()).then(|| groups.join(" AND "))
    }

    /// Groups that are too short for the index, as LIKE patterns (escape `\`).
    pub(crate) fn scanned(&self) -> Vec<Vec<String>> {
        self.groups
            .iter()
            .filter(|group| !is_indexed(group))
            .map(|group| group.iter().map(|word| pattern(word)).collect())
            .collect()
    }

    /// Words that must not occur, as LIKE patterns (escape `\`).
    pub(crate) fn excluded(&self) -> Vec<String> {
        self.without.iter().map(|word| pattern(word)).collect()
    }

    /// Text around the first match, matches between `«` and `»`.
    pub(crate) fn snippet(&self, text: &str) -> String {
        const BEFORE: usize = 60;
        const LENGTH: usize = 240;
        let letters: Vec<char> = text.chars().collect();
        let folded: Vec<char> = letters.iter().map(|c| fold(*c)).collect();
        let words: Vec<Vec<char>> =
            self.groups.iter().flatten().map(|w| w.chars().map(fold).collect()).collect();
        let match_at =
            |at: usize| words.iter().filter(|w| folded[at..].starts_with(w)).map(Vec::len).max();
        let first = (0..letters.len()).find(|&at| match_at(at).is_some()).unwrap_or(0);
        let start = first.saturating_sub(BEFORE);
        let end = (start + LENGTH).min(letters.len());
        let mut out = String::new();
        if start > 0 {
            out.push('…');
        }
        let mut at = start;
        while at < end {
            if let Some(length) = match_at(at) {
                out.push('«');
                out.extend(&letters[at..at + length]);
                out.push('»');
                at += length;
            } else {
                out.push(if letters[at].is_control() { ' ' } else { letters[at] });
                at += 1;
            }
        }
        if at < letters.len() {
            out.push('…');
        }
        out
    }
}

fn is_indexed(group: &[String]) -> bool {
    group.iter().all(|word| word.chars().count() >= SHORTEST_INDEXED)
}

fn pattern(word: &str) -> String {
    let word = word.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    format!("%{word}%")
}

fn fold(letter: char) -> char {
    letter.to_lowercase().next().unwrap_or(letter)
}

fn needs_words(operator: &str, at: usize) -> QueryProblem {
    QueryProblem(format!(
        "`{operator}` at character {at} needs a word on each side; put it in quotation marks to look for it"
    ))
}

enum Kind {
    Word(String),
    Phrase(String),
}

struct Token {
    kind: Kind,
    excluded: bool,
    /// In characters, from 1.
    at: usize,
}

fn tokens(text: &str) -> Result<Vec<Token>, QueryProblem> {
    let mut found = Vec::new();
    let mut letters = text
        .chars()
        .enumerate()
        .map(|(at, c)| (at + 1, if c == '\0' { ' ' } else { c }))
        .peekable();
    while let Some((at, letter)) = letters.next() {
        if letter.is_whitespace() {
            continue;
        }
        let next = letters.peek().map(|(_, c)| *c);
        let excluded = letter == '-' && next.is_some_and(|c| !c.is_whitespace() && c != '-');
        let (open_at, first) =
            if excluded { letters.next().unwrap_or((at, letter)) } else { (at, letter) };
        let kind = if first == '"' {
            let mut phrase = String::new();
            loop {
                match letters.next() {
                    Some((_, '"')) => break Kind::Phrase(phrase),
                    Some((_, c)) => phrase.push(c),
                    None => {
                        return Err(QueryProblem(format!(
                            "the quotation mark at character {open_at} is not closed; \
                             add the closing one, or leave it out"
                        )));
                    }
                }
            }
        } else {
            let mut word = String::from(first);
            while let Some((_, c)) = letters.next_if(|(_, c)| !c.is_whitespace() && *c != '"') {
                word.push(c);
            }
            Kind::Word(word)
        };
        found.push(Token { kind, excluded, at });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indexed(text: &str) -> String {
        Query::parse(text).unwrap().indexed().unwrap_or_default()
    }

    #[test]
    fn words_phrases_alternatives_and_exclusions() {
        assert_eq!(indexed("foo bar"), r#"("foo") AND ("bar")"#);
        assert_eq!(indexed("foo OR bar baz"), r#"("foo" OR "bar") AND ("baz")"#);
        assert_eq!(
            indexed(r#""two words" x*y(z) NEAR"#),
            r#"("two words") AND ("x*y(z)") AND ("NEAR")"#
        );
        let query = Query::parse("keep -drop NOT this").unwrap();
        assert_eq!(query.excluded(), ["%drop%", "%this%"]);
        assert_eq!(indexed("pre* AND fix"), r#"("pre") AND ("fix")"#);
    }

    #[test]
    fn short_words_are_scanned_for() {
        let query = Query::parse("数据 a_ or100% OR x").unwrap();
        assert_eq!(query.indexed(), None);
        assert_eq!(
            query.scanned(),
            [
                vec!["%数据%".to_owned()],
                vec!["%a\\_%".into()],
                vec!["%or100\\%%".into(), "%x%".into()]
            ]
        );
    }

    #[test]
    fn problems_say_where_and_what_to_do() {
        for (text, part) in [
            ("", "empty"),
            ("  * ", "empty"),
            ("-no", "only excludes"),
            (r#"a "b"#, "character 3 is not closed"),
            ("OR x", "`OR` at character 1"),
            ("x OR", "`OR` at character 3"),
            ("x OR OR y", "`OR` at character 6"),
            ("abc NOT", "`NOT` at character 5"),
        ] {
            let problem = Query::parse(text).unwrap_err().to_string();
            assert!(problem.contains(part), "{text:?} -> {problem}");
        }
        assert!(Query::parse(&"x".repeat(LONGEST_QUERY + 1)).is_err());
    }

    #[test]
    fn a_snippet_marks_matches_and_stays_short() {
        let query = Query::parse("STRASSE 数据").unwrap();
        let text = format!("{} Die Straße, strasse, 数据库 {}", "x".repeat(500), "y".repeat(500));
        let snippet = query.snippet(&text);
        assert!(snippet.starts_with('…') && snippet.ends_with('…'), "{snippet}");
        assert!(snippet.contains("«strasse», «数据»库"), "{snippet}");
        assert!(snippet.chars().count() < 260);
        assert_eq!(Query::parse("zzz").unwrap().snippet("short"), "short");
    }
}
