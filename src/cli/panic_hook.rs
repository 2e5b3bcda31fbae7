//! What a panic prints: that it happened and where, never its words, which can hold content or a secret.

use std::panic::PanicHookInfo;

/// Where a source tree begins in the paths that the compiler writes.
const SOURCE_ROOT: &str = "src/";

/// Replaces the hook that prints a panic's message.
pub fn install() {
    std::panic::set_hook(Box::new(|info| log::error!("code=panicked place={}", place(info))));
}

fn place(info: &PanicHookInfo<'_>) -> String {
    let Some(location) = info.location() else { return "unknown".to_owned() };
    format!("{}:{}", short(location.file()), location.line())
}

/// The path from its last source directory on: what lies before it names the machine of the build.
fn short(file: &str) -> &str {
    file.rfind(SOURCE_ROOT).and_then(|at| file.get(at..)).unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_begin_at_the_source_directory() {
        let rows = [
            ("src/run/mod.rs", "src/run/mod.rs"),
            ("/home/alex/deps/serde-1.0.0/src/de.rs", "src/de.rs"),
            ("/rustc/abc/library/core/src/option.rs", "src/option.rs"),
            ("elsewhere.rs", "unknown"),
        ];
        for (file, expected) in rows {
            assert_eq!(short(file), expected);
        }
    }
}
