//! The command line as tables.

use super::*;

fn read(line: &str) -> Result<Invocation, Stop> {
    let words = std::iter::once("claude-code-runner").chain(line.split('|').filter(|word| !word.is_empty()));
    parse(words.map(OsString::from))
}

fn turn_options() -> TurnOptions {
    TurnOptions {
        class: ToolClass::Scoped,
        billing: None,
        model: "sonnet".into(),
        claude_bin: "claude".into(),
        write: false,
        log_level: LevelFilter::Warn,
    }
}

fn ask_options() -> AskOptions {
    AskOptions {
        project: None,
        thread: None,
        attach: Vec::new(),
        out: ".".into(),
        json: false,
        data_dir: None,
        turns: turn_options(),
        text: "hello".into(),
    }
}

#[test]
fn words_become_invocations() {
    let key = Billing::Organization { key_ref: "env:KEY".into() };
    let local =
        LocalOptions { projects: vec!["a".into()], data_dir: None, listen: None, turns: turn_options() };
    let id = Uuid::from_u128(7);
    let rows = [
        ("run|--config|c.toml", Invocation::Run { config: "c.toml".into(), superseded_limit: None }),
        (
            "check-config|--config|c.toml|--json|--online",
            Invocation::CheckConfig(CheckOptions { config: "c.toml".into(), json: true, online: true }),
        ),
        (
            "status|--config|c.toml|--json",
            Invocation::Status(StatusOptions { config: "c.toml".into(), json: true }),
        ),
        ("local|--project|a", Invocation::Local(local.clone())),
        (
            "local|--project|a|--project|b|--listen|127.0.0.1:8080|--billing|personal|--tool-class|host|--write",
            Invocation::Local(LocalOptions {
                projects: vec!["a".into(), "b".into()],
                listen: Some(([127, 0, 0, 1], 8080).into()),
                turns: TurnOptions {
                    class: ToolClass::Host,
                    billing: Some(Billing::Personal),
                    write: true,
                    ..turn_options()
                },
                ..local
            }),
        ),
        ("ask|hello", Invocation::Ask(ask_options())),
        (
            "ask|--billing|organization|--api-key-ref|env:KEY|--model|opus|--claude-bin|/c|--log-level|info|hello",
            Invocation::Ask(AskOptions {
                turns: TurnOptions {
                    billing: Some(key),
                    model: "opus".into(),
                    claude_bin: "/c".into(),
                    log_level: LevelFilter::Info,
                    ..turn_options()
                },
                ..ask_options()
            }),
        ),
        (
            "ask|--attach|x.zip|--attach|y|--out|o|--json|--project|p|--data-dir|d|--thread|00000000-0000-0000-0000-000000000007",
            Invocation::Ask(AskOptions {
                attach: vec!["x.zip".into(), "y".into()],
                out: "o".into(),
                json: true,
                project: Some("p".into()),
                data_dir: Some("d".into()),
                thread: Some(id),
                text: String::new(),
                ..ask_options()
            }),
        ),
        (
            "ask|--|-v is an option?",
            Invocation::Ask(AskOptions { text: "-v is an option?".into(), ..ask_options() }),
        ),
        ("demo", Invocation::Demo(DemoOptions { data_dir: None, log_level: LevelFilter::Warn })),
    ];
    for (words, expected) in rows {
        assert_eq!(read(words).unwrap(), expected, "{words}");
    }
}

#[test]
fn what_cannot_be_understood_says_why() {
    let rows = [
        ("", exit::USAGE, "Usage"),
        ("fly", exit::USAGE, "fly"),
        ("run", exit::USAGE, "--config"),
        ("local", exit::USAGE, "--project"),
        ("local|--project|a|--listen|here", exit::USAGE, "--listen"),
        ("ask", exit::USAGE, "empty"),
        ("ask|  ", exit::USAGE, "empty"),
        ("ask|--thread|7|hello", exit::USAGE, "--thread"),
        ("ask|--billing|cash|hello", exit::USAGE, "personal"),
        ("ask|--billing|organization|hello", exit::USAGE, "--api-key-ref"),
        ("ask|--billing|personal|--api-key-ref|env:KEY|hello", exit::USAGE, "organization"),
        ("ask|--api-key-ref|env:KEY|hello", exit::USAGE, "--billing"),
        ("ask|--tool-class|root|hello", exit::USAGE, "scoped"),
        ("--version", exit::OK, env!("CARGO_PKG_VERSION")),
        ("--help", exit::OK, "Exit codes"),
        ("ask|--help", exit::OK, "--attach"),
        ("local|--help", exit::OK, "--billing"),
    ];
    for (words, code, said) in rows {
        let stop = read(words).unwrap_err();
        assert_eq!(stop.exit(), code, "{words}");
        let text = match stop {
            Stop::Words(words) => words.to_string(),
            Stop::Choice(failure) => failure.message,
        };
        assert!(text.contains(said), "{words}: {text}");
    }
}

#[test]
fn the_commands_are_well_made() {
    commands::program().debug_assert();
}
