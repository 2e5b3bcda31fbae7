//! The rules of the house, as tests over the project's own files.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::support::{source, spdx};

/// Longest file below `src`, lines: what a person reads in one sitting.
const MAX_SOURCE_LINES: usize = 500;

/// Most packages in `Cargo.lock`: what somebody has to trust and keep up to date. A new dependency that needs
/// more has to argue for each of them.
const MAX_PACKAGES: usize = 196;

/// What may lie at the top beside hidden tool files.
const TOP_LEVEL: &[&str] = &[
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "config.example.toml",
    "fixtures",
    "scripts",
    "src",
    "tests",
];

/// Which module may import which. `sdk::wire` is the shared vocabulary below everything: plain types, no rules.
const IMPORTS: &[(&str, &[&str])] = &[
    (
        "cli",
        &[
            "runner",
            "run",
            "attachments",
            "sdk",
            "sdk::wire",
            "sdk::jws",
            "claude",
            "config",
            "sys",
            "local",
            "fake_claude",
        ],
    ),
    ("runner", &["run", "attachments", "sdk", "sdk::wire", "sdk::jws", "claude", "config", "sys"]),
    ("run", &["attachments", "sdk", "sdk::wire", "sdk::jws", "claude", "config", "sys"]),
    ("attachments", &["sdk", "sdk::wire", "sdk::jws", "claude", "config", "sys"]),
    ("sdk", &["sdk::wire", "sdk::jws", "config", "sys"]),
    ("sdk::jws", &["sdk", "sdk::wire", "config", "sys"]),
    ("sdk::wire", &[]),
    ("claude", &["sdk::wire", "config", "sys"]),
    ("config", &["sdk::wire", "sys"]),
    ("local", &["sdk::wire", "sdk::jws", "sys"]),
    ("sys", &[]),
    ("fake_claude", &[]),
    ("lib", &[]),
    ("main", &["cli"]),
    ("bin", &["fake_claude"]),
];

/// Crates that have no place here: async runtimes and what is built on them, second TLS stacks.
const BANNED_CRATES: &[&str] = &[
    "actix-rt",
    "async-executor",
    "async-global-executor",
    "async-io",
    "async-std",
    "aws-lc-rs",
    "aws-lc-sys",
    "axum",
    "futures-executor",
    "glommio",
    "hyper",
    "mio",
    "monoio",
    "native-tls",
    "openssl",
    "openssl-sys",
    "reqwest",
    "schannel-sys",
    "smol",
    "tokio",
    "tokio-rustls",
    "warp",
];

/// Licences that this project may be built from.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Where every package comes from.
const REGISTRY: &str = concat!("registry+https://github.com/rust-lang/crates.io", "-index");

/// Texts that no tracked file holds, cut in two here so that this list does not find itself.
const FORBIDDEN_TEXTS: &[(&str, &str)] = &[
    ("a path of one machine", concat!("/wo", "rk/")),
    ("a path of one machine", concat!("/ro", "ot/")),
    ("a path of one machine", concat!(".cargo/regis", "try")),
    ("the address of a registry", concat!("index.crates", ".io")),
    ("the address of a registry", concat!("static.crates", ".io")),
    ("the address of a registry", concat!("registry.np", "mjs")),
    ("the address of a registry", concat!("py", "pi.org")),
    ("another product's name", concat!("both", "y")),
    ("how it was made", concat!("co-authored", "-by")),
    ("how it was made", concat!("ai-gene", "rated")),
    ("how it was made", concat!("ai gene", "rated")),
    ("how it was made", concat!("generated ", "by ai")),
    ("how it was made", concat!("generated ", "with ")),
    ("how it was made", concat!("written ", "by claude")),
    ("how it was made", concat!("written ", "by an ai")),
    ("how it was made", concat!("as an ", "ai ")),
    ("how it was made", concat!("language ", "model")),
    ("how it was made", concat!("chat", "gpt")),
    ("how it was made", concat!("git work", "tree add")),
    ("how it was made", concat!("design", ".md")),
];

/// Files that hold the registry's name by their nature.
const NAMES_REGISTRY: &[&str] = &["Cargo.lock"];

fn faults(found: impl IntoIterator<Item = String>) {
    let list: Vec<String> = found.into_iter().collect();
    assert!(list.is_empty(), "\n{}\n", list.join("\n"));
}

#[test]
fn imports_go_down_only() {
    let files = source::rust_files(&["src"]);
    faults(files.iter().flat_map(|file| import_faults(file, &source::read(file))));
}

fn import_faults(file: &str, text: &str) -> Vec<String> {
    let own = module_path(file);
    let from = layer(&own);
    let allowed = IMPORTS.iter().find(|(name, _)| *name == from).map(|(_, allowed)| *allowed);
    let Some(allowed) = allowed else { return vec![format!("{file}: no rule for the module {from}")] };
    let used = used_modules(&own, &source::code_only(text));
    let stray = used.into_iter().filter(|to| *to != from && !allowed.contains(&to.as_str()));
    stray.map(|to| format!("{file}: {from} may not import {to}")).collect()
}

/// `src/sdk/wire/run.rs` is `sdk`, `wire`, `run`; a `mod.rs` is its directory, `bound_tests.rs` the tests of `bound`.
fn module_path(file: &str) -> Vec<String> {
    let inner = file.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
    let inner = inner.strip_suffix("_tests").map_or(inner.to_owned(), |module| format!("{module}/tests"));
    inner.split('/').map(str::to_owned).collect()
}

/// The name by which the table knows a module: its first part, below `sdk` for two of them also the second.
fn layer(path: &[String]) -> String {
    match path {
        [first, second, ..] if first == "sdk" && ["wire", "jws"].contains(&second.as_str()) => {
            format!("sdk::{second}")
        }
        [first, ..] => first.clone(),
        [] => "lib".to_owned(),
    }
}

/// The modules that code names through `crate::`, the package's name or enough `super::`.
fn used_modules(own: &[String], code: &str) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for mark in ["crate::", "claude_code_runner::"] {
        for (place, _) in code.match_indices(mark) {
            let word = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '$';
            if !code[..place].chars().next_back().is_some_and(word) {
                used.extend(paths_at(&code[place + mark.len()..]).iter().map(|path| layer(path)));
            }
        }
    }
    let tests_begin = code.find("mod tests {").unwrap_or(code.len());
    for (place, _) in code.match_indices("super::") {
        if code[..place].ends_with("super::") {
            continue;
        }
        let chain = code[place..].split("super::").take_while(|part| part.is_empty()).count();
        let inner = usize::from(place > tests_begin);
        let base = &own[..(own.len() + inner).saturating_sub(chain).min(own.len())];
        for path in paths_at(&code[place + chain * "super::".len()..]) {
            let whole: Vec<String> = base.iter().cloned().chain(path).collect();
            if own.first() != Some(&"lib".to_owned()) && !whole.is_empty() {
                used.insert(layer(&whole));
            }
        }
    }
    used
}

/// The paths that begin here, two names deep: `a::b`, `{a::b, c}` or `a::{b, c}`.
fn paths_at(code: &str) -> Vec<Vec<String>> {
    let name =
        |text: &str| text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
    let Some(group) = code.strip_prefix('{') else {
        let first: String = name(code);
        let rest = code[first.len()..].strip_prefix("::").unwrap_or("");
        if let Some(group) = rest.strip_prefix('{') {
            let with_first = |item: &str| vec![first.clone(), name(item)];
            return group_items(group).into_iter().map(with_first).collect();
        }
        return vec![vec![first, name(rest)]];
    };
    group_items(group).into_iter().flat_map(paths_at).collect()
}

/// The items of a `{a, b::{c, d}}` whose opening brace is already gone.
fn group_items(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut items) = (0_usize, 0, Vec::new());
    for (index, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            '}' => {
                items.push(text[start..index].trim());
                break;
            }
            ',' if depth == 0 => {
                items.push(text[start..index].trim());
                start = index + 1;
            }
            _ => {}
        }
    }
    items.into_iter().filter(|item| !item.is_empty()).collect()
}

#[test]
fn import_rule_sees_every_way_to_write_a_path() {
    let rows = [
        ("src/sdk/http.rs", "use crate::claude::argv;", 1),
        ("src/sdk/http.rs", "use crate::sys::lock;", 0),
        ("src/sdk/http.rs", "fn f() { crate::run::go() }", 1),
        ("src/sdk/http.rs", "use crate::{sys::lock, claude::{argv, line}};", 1),
        ("src/sdk/http.rs", "use super::super::claude;", 1),
        ("src/sdk/http.rs", "use super::wire::run;", 0),
        ("src/sdk/http.rs", "// use crate::claude;\nlet text = \"crate::claude\";", 0),
        ("src/sdk/http.rs", "mod tests { use super::*; use super::super::wire; }", 0),
        ("src/sdk/http.rs", "mod tests { use super::super::super::claude; }", 1),
        ("src/sdk/http_tests.rs", "use super::super::jws;", 0),
        ("src/sdk/http/tests.rs", "use super::super::super::claude;", 1),
        ("src/sdk/wire/run.rs", "use super::time::Time;", 0),
        ("src/sdk/wire/run.rs", "use super::super::http;", 1),
        ("src/sdk/wire/run.rs", "use crate::sdk::error::ApiError;", 1),
        ("src/local/mod.rs", "use crate::sdk::{jws, wire::run};", 0),
        ("src/local/ops/run.rs", "use crate::sdk::client::Client;", 1),
        ("src/local/mod.rs", "use crate::sdk::{jws, client};", 1),
        ("src/runner/mod.rs", "use crate::local::Server;", 1),
        ("src/cli/local.rs", "use crate::local::Server;", 0),
        ("src/fake_claude/play.rs", "use crate::sys::lock;", 1),
        ("src/claude/line.rs", "use crate::sdk::wire::run::CostReport;", 0),
        ("src/claude/line.rs", "use crate::sdk::client;", 1),
        ("src/main.rs", "claude_code_runner::cli::main()", 0),
        ("src/bin/fake-claude.rs", "claude_code_runner::cli::main()", 1),
        ("src/novel.rs", "", 1),
    ];
    for (file, text, expected) in rows {
        let found = import_faults(file, text);
        assert_eq!(found.len(), expected, "{file}: {text}: {found:?}");
    }
}

#[test]
fn source_files_are_read_in_one_sitting() {
    let long = |file: &String| {
        let lines = source::read(file).lines().count();
        (lines > MAX_SOURCE_LINES).then(|| format!("{file}: {lines} lines, at most {MAX_SOURCE_LINES}"))
    };
    faults(source::rust_files(&["src"]).iter().filter_map(long));
}

#[test]
fn every_rust_file_opens_with_what_it_is_for() {
    // The tests of a module in a file of their own are for what their name says.
    let mut files = source::rust_files(&["src", "tests"]);
    files.retain(|file| !file.ends_with("/tests.rs") && !file.ends_with("_tests.rs"));
    let bare = files.iter().filter(|file| !source::read(file).starts_with("//! "));
    faults(bare.map(|file| format!("{file}: its first line is no `//!` sentence")));
}

#[test]
fn texts_keep_the_rules() {
    let mut found = Vec::new();
    for file in source::tracked_files() {
        let Ok(text) = String::from_utf8(std::fs::read(source::root().join(&file)).unwrap()) else {
            continue;
        };
        let dash = text.chars().any(|letter| letter == '\u{2013}' || letter == '\u{2014}');
        if dash {
            found.push(format!("{file}: an en dash or em dash"));
        }
        // The kernel's own view of a process is no path of one machine.
        let lower = text.to_lowercase().replace("/proc/self/root/", "");
        let exempt = |needle: &str| NAMES_REGISTRY.contains(&file.as_str()) && needle.contains("crates");
        let hits = FORBIDDEN_TEXTS.iter().filter(|(_, needle)| lower.contains(needle) && !exempt(needle));
        found.extend(hits.map(|(what, needle)| format!("{file}: {what}: {needle}")));
    }
    faults(found);
}

#[test]
fn unsafe_code_is_in_sys_and_says_why_it_is_safe() {
    let mut found = Vec::new();
    for file in source::rust_files(&["src", "tests"]) {
        let text = source::read(&file);
        let lines: Vec<&str> = text.lines().collect();
        for (index, code) in source::code_only(&text).lines().enumerate() {
            if !has_word(code, "unsafe") {
                continue;
            }
            if !file.starts_with("src/sys/") {
                found.push(format!("{file}:{}: unsafe code outside src/sys", index + 1));
            } else if !says_why(&lines, index) {
                found.push(format!("{file}:{}: unsafe code without a SAFETY comment", index + 1));
            }
        }
    }
    faults(found);
}

/// A SAFETY comment on the line, or in the comments and attributes right above the statement.
fn says_why(lines: &[&str], index: usize) -> bool {
    /// Lines a statement may have above its unsafe part.
    const REACH: usize = 8;
    let above = lines[..index].iter().rev().take(REACH);
    lines[index].contains("SAFETY:")
        || above.take_while(|line| !line.trim().is_empty()).any(|it| it.contains("SAFETY:"))
}

fn has_word(code: &str, word: &str) -> bool {
    code.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(|part| part == word)
}

#[test]
fn nothing_is_left_out_or_waited_for() {
    let needles = [
        concat!("#[ig", "nore"),
        concat!("thread::sl", "eep"),
        concat!("to", "do!"),
        concat!("unimple", "mented!"),
    ];
    let mut found = Vec::new();
    for file in source::rust_files(&["src", "tests"]) {
        for (index, code) in source::code_only(&source::read(&file)).lines().enumerate() {
            let hits = needles.iter().filter(|needle| code.contains(*needle));
            found.extend(hits.map(|needle| format!("{file}:{}: {needle}", index + 1)));
        }
    }
    faults(found);
}

#[test]
fn top_level_has_only_what_belongs_there() {
    let files = source::tracked_files();
    let first = files.iter().filter_map(|file| file.split('/').next());
    let entries: BTreeSet<&str> = first.filter(|entry| !entry.starts_with('.')).collect();
    faults(
        entries.iter().filter(|entry| !TOP_LEVEL.contains(entry)).map(|entry| format!("{entry} at the top")),
    );
}

fn manifest(path: &str) -> toml::Table {
    source::read(path).parse().unwrap()
}

fn locked_packages() -> Vec<toml::Value> {
    manifest("Cargo.lock")["package"].as_array().unwrap().clone()
}

#[test]
fn dependencies_come_from_the_registry() {
    let mut found = Vec::new();
    for name in ["dependencies", "dev-dependencies", "build-dependencies"] {
        for (dependency, how) in
            manifest("Cargo.toml").get(name).and_then(toml::Value::as_table).into_iter().flatten()
        {
            let odd = ["git", "path", "registry"].into_iter().filter(|key| how.get(key).is_some());
            found.extend(odd.map(|key| format!("{dependency}: {key}")));
        }
    }
    for package in locked_packages() {
        let source = package.get("source").and_then(toml::Value::as_str);
        if source.is_some_and(|source| source != REGISTRY) {
            found.push(format!("{:?}: {source:?}", package["name"]));
        }
    }
    faults(found);
}

#[test]
fn no_banned_crate_is_in_the_tree() {
    let packages = locked_packages();
    let names = packages.iter().filter_map(|package| package["name"].as_str());
    faults(names.filter(|name| BANNED_CRATES.contains(name)).map(|name| format!("{name} is in Cargo.lock")));
}

#[test]
fn the_tree_of_dependencies_does_not_grow_unseen() {
    let count = locked_packages().len();
    assert!(count <= MAX_PACKAGES, "{count} packages in Cargo.lock, at most {MAX_PACKAGES}");
}

#[test]
fn every_licence_is_allowed() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--offline", "--locked", "--filter-platform", &host()])
        .current_dir(source::root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 1);
    faults(packages.iter().filter_map(licence_fault));
}

/// The platform that this is built for; packages of others are not on this machine.
fn host() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned()
}

fn licence_fault(package: &Value) -> Option<String> {
    let name = &package["name"];
    let Some(expression) = package["license"].as_str() else { return Some(format!("{name}: no licence")) };
    match spdx::suffices(expression, LICENCES) {
        Ok(true) => None,
        Ok(false) => Some(format!("{name}: {expression}")),
        Err(fault) => Some(format!("{name}: {fault}")),
    }
}

#[test]
fn the_project_carries_its_own_licence() {
    let declared = manifest("Cargo.toml")["package"]["license"].as_str().unwrap().to_owned();
    assert_eq!(declared, "Apache-2.0");
    assert!(source::read("LICENSE").contains("Apache License"));
}

/// A log value ends at a space, and the words for a kind of system error have spaces: `no storage space` would be `no`.
#[test]
fn kinds_of_system_errors_are_logged_as_one_word() {
    let mut found = Vec::new();
    for path in source::rust_files(&["src"]) {
        for call in source::read(&path).split("log::").skip(1) {
            let call = call.split(';').next().unwrap_or_default();
            if call.contains(".kind()") && call.contains("error={}") {
                found.push(format!("{path}: {}", call.lines().next().unwrap_or_default()));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}
