//! What the benchmarks measure, as a table.

/// The rows of the table.
#[derive(Default)]
pub struct Report {
    rows: Vec<Row>,
}

/// What, the figures, and the value with its limit and whether it is good.
type Row = (String, String, Option<(f64, f64, bool)>);

impl Report {
    /// A figure that is only told.
    pub fn tell(&mut self, what: &str, figure: String) {
        self.rows.push((what.to_owned(), figure, None));
    }

    /// A figure that must not be above its limit.
    pub fn at_most(&mut self, what: &str, figure: String, value: f64, limit: f64) {
        self.rows.push((what.to_owned(), figure, Some((value, limit, value <= limit))));
    }

    /// A figure that must not be below its limit.
    pub fn at_least(&mut self, what: &str, figure: String, value: f64, limit: f64) {
        self.rows.push((what.to_owned(), figure, Some((value, limit, value >= limit))));
    }

    /// How many are on the wrong side of their limit.
    pub fn over(&self) -> usize {
        self.rows.iter().filter(|(.., judged)| judged.is_some_and(|(.., good)| !good)).count()
    }

    /// The table, on standard output.
    pub fn print(&self) {
        println!("| what | measured | value | limit | |\n|---|---|---|---|---|");
        for (what, figure, judged) in &self.rows {
            match judged {
                Some((value, limit, good)) => {
                    let verdict = if *good { "ok" } else { "**over**" };
                    println!("| {what} | {figure} | {value:.2} | {limit:.2} | {verdict} |");
                }
                None => println!("| {what} | {figure} | | | |"),
            }
        }
    }
}

/// The middle one.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What a process shares with nobody, in MiB: written to, and only read (of its program file).
///
/// # Panics
/// When there is no such process.
pub fn private_mib(pid: u32) -> (f64, f64) {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{path}: {why}"));
    (kib(&text, "Private_Dirty:"), kib(&text, "Private_Clean:"))
}

/// A field in kB of a process's `status`.
///
/// # Panics
/// When there is no such process or field.
pub fn status_mib(pid: u32, field: &str) -> f64 {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{path}: {why}"));
    kib(&text, field)
}

/// What a process has used of the processors so far, in seconds, by all threads that live.
pub fn processor_seconds(pid: u32) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    let threads = threads.unwrap_or_else(|why| panic!("process {pid}: {why}"));
    let used = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    };
    threads.flatten().filter_map(used).sum::<f64>() / 1e9
}

/// A field in kB, in MiB.
fn kib(text: &str, field: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(field)).unwrap_or_default();
    let number = line.split_whitespace().nth(1).and_then(|number| number.parse::<f64>().ok());
    number.unwrap_or_else(|| panic!("no {field}")) / 1024.0
}
