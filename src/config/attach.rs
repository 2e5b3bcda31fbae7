//! Which files of a turn may be attached: the names of roots and the patterns of refused names.
//!
//! Must not know how a path is checked against them (M3-12 notes 3 and 4).

use toml::de::DeValue;

use super::fault::Problem;
use super::values::filled;

/// Root name: the turn's resolved project.
pub const ROOT_PROJECT: &str = "project";
/// Root name: the inbox of the run's thread.
pub const ROOT_THREAD_INBOX: &str = "thread_inbox";
/// Root name: the run's temporary directory.
pub const ROOT_RUNNER_TEMP: &str = "runner_temp";
/// Every root name. A path is none, because it would be shared by every forum (D-M3-12-2).
pub const ROOT_NAMES: [&str; 3] = [ROOT_PROJECT, ROOT_THREAD_INBOX, ROOT_RUNNER_TEMP];

/// Makes the one list of mandatory patterns, as values and as the default of its key in TOML.
macro_rules! mandatory_patterns {
    ($($pattern:literal)*) => {
        /// The patterns that every configured list must contain (M3-12 note 4 and R-33).
        pub const DEFAULT_DENIED_PATTERNS: &[&str] = &[$($pattern),*];
        /// The same list as the configuration file writes it.
        pub const DEFAULT_DENIED_PATTERNS_TOML: &str = concat!("[\n", $("    \"", $pattern, "\",\n",)* "]");
    };
}

mandatory_patterns! {
    ".env*"
    "*.pem"
    "*.key"
    "id_*"
    ".netrc"
    ".ssh"
    ".claude"
    ".config"
    ".aws"
    ".azure"
    ".gnupg"
    ".git"
    ".git-credentials"
    ".npmrc"
    ".pypirc"
    ".docker"
    ".kube"
    "*.p12"
    "*.pfx"
    "*.jks"
    "*.kdbx"
    "*.tfstate*"
    "credentials*"
}

/// One root name.
pub fn root_name(value: &DeValue<'_>) -> Result<String, Problem> {
    let text = filled(value)?;
    let known = ROOT_NAMES.contains(&text);
    if known { Ok(text.to_owned()) } else { Err(Problem::NotOneOf("project, thread_inbox or runner_temp")) }
}

/// One pattern for one name: not empty, no slash, no control or direction characters.
pub fn pattern(value: &DeValue<'_>) -> Result<String, Problem> {
    let text = filled(value)?;
    if text.contains('/') { Err(Problem::PatternSlash) } else { Ok(text.to_owned()) }
}

/// The mandatory patterns that `patterns` lacks.
pub fn missing_patterns(patterns: &[String]) -> Vec<&'static str> {
    let has = |mandatory: &&str| patterns.iter().any(|pattern| pattern == *mandatory);
    DEFAULT_DENIED_PATTERNS.iter().filter(|mandatory| !has(mandatory)).copied().collect()
}
