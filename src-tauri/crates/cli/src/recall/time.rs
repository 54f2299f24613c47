//! Points in time as people and models write them, without a calendar library:
//! only UTC is needed.

const DAY: i64 = 86_400_000;

/// Milliseconds since the epoch as `2026-11-30T18:05:00Z`.
pub(super) fn show(at: i64) -> String {
    let (days, rest) = (at.div_euclid(DAY), at.rem_euclid(DAY) / 1000);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// `2026-11-30`, `2026-11-30T18:05:00Z` (or with `+02:00`), or an age: `90m`, `24h`, `7d`, `2w`.
pub(super) fn parse(text: &str, now: i64) -> Option<i64> {
    let text = text.trim();
    age(text).map(|age| now.saturating_sub(age)).or_else(|| date_and_time(text))
}

fn age(text: &str) -> Option<i64> {
    let unit = match text.chars().last()? {
        'm' => 60_000,
        'h' => 3_600_000,
        'd' => DAY,
        'w' => 7 * DAY,
        _ => return None,
    };
    number(&text[..text.len() - 1])?.checked_mul(unit)
}

fn date_and_time(text: &str) -> Option<i64> {
    let (date, time) = text.split_once(['T', 't', ' ']).unwrap_or((text, ""));
    let mut parts = date.split('-');
    let (year, month, day) =
        (number(parts.next()?)?, number(parts.next()?)?, number(parts.next()?)?);
    if parts.next().is_some() || date.len() != 10 {
        return None;
    }
    let days = days(year, month, day);
    if civil(days) != (year, month, day) {
        return None;
    }
    let (time, offset) = split_offset(time)?;
    let mut parts = time.split(':');
    let mut next = |most: i64| match parts.next() {
        None | Some("") => Some(0),
        Some(part) => number(part.split('.').next()?).filter(|n| *n <= most),
    };
    let (hour, minute, second) = (next(23)?, next(59)?, next(60)?);
    Some(days * DAY + (hour * 3600 + minute * 60 + second) * 1000 - offset)
}

/// The time of day and its distance from UTC in milliseconds.
fn split_offset(time: &str) -> Option<(&str, i64)> {
    if let Some(utc) = time.strip_suffix(['Z', 'z']) {
        return Some((utc, 0));
    }
    let Some(at) = time.find(['+', '-']) else { return Some((time, 0)) };
    let zone = &time[at + 1..];
    let short = || Some((zone.get(..2)?, zone.get(2..).filter(|m| !m.is_empty()).unwrap_or("0")));
    let (hours, minutes) = zone.split_once(':').or_else(short)?;
    let offset = (number(hours)? * 60 + number(minutes)?) * 60_000;
    Some((&time[..at], if time[at..].starts_with('-') { -offset } else { offset }))
}

fn number(text: &str) -> Option<i64> {
    let plain = !text.is_empty() && text.len() <= 9 && text.bytes().all(|b| b.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// Days since 1970-01-01 of a date in the Gregorian calendar. Years are counted
/// from March, so that the leap day is the last of the year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_are_each_other_s_inverse() {
        for day in (-800_000..800_000).step_by(37) {
            let (y, m, d) = civil(day);
            assert_eq!(days(y, m, d), day);
        }
        assert_eq!(show(0), "1970-01-01T00:00:00Z");
        assert_eq!(show(951_826_154_321), "2000-02-29T12:09:14Z");
        assert_eq!(show(-1), "1969-12-31T23:59:59Z");
    }

    #[test]
    fn times_are_read_as_they_are_written() {
        let now = 1_000 * DAY;
        assert_eq!(parse("2000-02-29T12:09:14Z", now), Some(951_826_154_000));
        assert_eq!(parse("2000-02-29T14:09:14.5+02:00", now), Some(951_826_154_000));
        assert_eq!(parse("2000-02-29 09:09-0300", now), Some(951_826_140_000));
        assert_eq!(parse("2000-02-29 13:09+01", now), Some(951_826_140_000));
        assert_eq!(parse("1970-01-02", now), Some(DAY));
        assert_eq!(parse("7d", now), Some(993 * DAY));
        assert_eq!(parse("90m", now), Some(now - 5_400_000));
        for wrong in [
            "",
            "yesterday",
            "2001-02-29",
            "2001-13-01",
            "1-1-1",
            "d",
            "-1d",
            "2001-01-01T25:00",
            "2001-01-01T1:1+x数",
        ] {
            assert_eq!(parse(wrong, now), None, "{wrong}");
        }
    }
}
