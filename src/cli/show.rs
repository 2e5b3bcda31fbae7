//! Lines for people: on standard output what was asked for, on standard error how it goes.
//!
//! Texts that come from a model, a file or a server pass [`plain`] first, so that none of them can steer the
//! terminal. A reader that has gone away is no fault; any other fault of standard output is kept until the end of the
//! program, which then fails.

use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often the moving sign of a line that waits turns.
const TICK: Duration = Duration::from_millis(120);

/// Look of a transfer on a terminal.
const TRANSFER: &str = "  {prefix} {wide_bar} {bytes}/{total_bytes}";

/// Look of the line that shows what the run does.
const ACTIVITY: &str = "{spinner} {msg}";

/// Bytes of a kibibyte.
const KIB: u64 = 1024;

/// The first fault of standard output.
static LOST: OnceLock<ErrorKind> = OnceLock::new();

/// Writes a line to standard output.
pub fn line(text: &str) {
    keep(writeln!(std::io::stdout(), "{text}"));
}

/// Why standard output did not take everything; a reader that has gone away is no reason.
pub fn lost() -> Option<ErrorKind> {
    keep(std::io::stdout().flush());
    LOST.get().copied()
}

fn keep(written: std::io::Result<()>) {
    if let Err(fault) = written
        && fault.kind() != ErrorKind::BrokenPipe
    {
        LOST.get_or_init(|| fault.kind());
    }
}

/// Writes a line to standard error.
pub fn error_line(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// `text` without what a terminal would obey or what would make a line look like another: control characters
/// besides tab and line feed, and characters that turn the direction of writing.
pub fn plain(text: &str) -> String {
    let kept = |letter: &char| matches!(letter, '\n' | '\t') || !(letter.is_control() || turns(*letter));
    text.chars().filter(kept).collect()
}

/// [`plain`] on one line.
pub fn one_line(text: &str) -> String {
    plain(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn turns(letter: char) -> bool {
    matches!(letter, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A length in bytes for people.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..KIB => format!("{bytes} B"),
        _ if bytes < KIB * KIB => format!("{} KiB", bytes / KIB),
        _ => format!("{} MiB", bytes / (KIB * KIB)),
    }
}

/// How the work goes: bars and a moving line on a terminal, plain lines elsewhere, nothing when asked.
pub struct Live {
    bars: Option<MultiProgress>,
    activity: Option<ProgressBar>,
    quiet: bool,
}

impl Live {
    /// For standard error as it is. `quiet`: show nothing, for `--json`.
    pub fn new(quiet: bool) -> Live {
        let terminal = !quiet && std::io::stderr().is_terminal();
        let bars = terminal.then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr()));
        Live { bars, activity: None, quiet }
    }

    /// A line that stays.
    pub fn note(&self, text: &str) {
        let text = plain(text);
        match &self.bars {
            _ if self.quiet => {}
            // A terminal that cannot be written to loses the line only.
            Some(bars) => drop(bars.println(&text)),
            None => error_line(&text),
        }
    }

    /// What happens now: the moving line of a terminal, nothing elsewhere (the notes say it there).
    pub fn activity(&mut self, text: &str) {
        let Some(bars) = &self.bars else { return };
        let bar = self.activity.get_or_insert_with(|| {
            let bar = bars.add(ProgressBar::new_spinner().with_style(style(ACTIVITY)));
            bar.enable_steady_tick(TICK);
            bar
        });
        bar.set_message(one_line(text));
    }

    /// Takes the moving line away.
    pub fn clear(&mut self) {
        if let Some(bar) = self.activity.take() {
            bar.finish_and_clear();
        }
    }

    /// Shows a transfer of `total` bytes. `verb`: what is done, such as "sending".
    pub fn transfer(&self, verb: &str, name: &str, total: u64) -> Transfer {
        let name = one_line(name);
        let bar = self.bars.as_ref().map(|bars| {
            let bar = bars.add(ProgressBar::new(total).with_style(style(TRANSFER)));
            bar.set_prefix(format!("{verb} {name}"));
            bar
        });
        if bar.is_none() {
            self.note(&format!("{verb} {name} ({})", size(total)));
        }
        Transfer(bar)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.clear();
    }
}

/// One transfer.
pub struct Transfer(Option<ProgressBar>);

impl Transfer {
    /// This many bytes more.
    pub fn add(&self, bytes: u64) {
        if let Some(bar) = &self.0 {
            bar.inc(bytes);
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if let Some(bar) = self.0.take() {
            bar.abandon();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    // The templates are constants; a broken one gives the default look.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        let rows = [
            ("plain", "a b\n\tc", "a b\n\tc"),
            ("escape sequence", "\u{1b}[31mred\u{1b}[0m", "[31mred[0m"),
            ("carriage return", "good\rbad", "goodbad"),
            ("single character sequence", "\u{9b}2J", "2J"),
            ("turned", "a\u{202e}txt.exe", "atxt.exe"),
            ("other scripts", "R\u{e9}sum\u{e9} \u{8acb}", "R\u{e9}sum\u{e9} \u{8acb}"),
        ];
        for (name, text, shown) in rows {
            assert_eq!(plain(text), shown, "{name}");
        }
        assert_eq!(one_line(" a\n b\tc "), "a b c");
    }

    #[test]
    fn sizes() {
        for (bytes, text) in [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (5 * 1024 * 1024, "5 MiB")] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn a_template_is_one() {
        for template in [TRANSFER, ACTIVITY] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
