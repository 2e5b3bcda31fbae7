use super::*;

fn result(terminal: &str, status: u16) -> TurnResult {
    TurnResult {
        is_error: Some(true),
        terminal_reason: Some(terminal.into()).filter(|text: &String| !text.is_empty()),
        api_error_status: Some(status).filter(|status| *status > 0),
        ..TurnResult::default()
    }
}

#[test]
fn each_error_has_its_reason() {
    let rows = [
        ("api_error", 0, "authentication_failed", "runtime_not_authenticated", "not_authenticated"),
        ("api_error", 401, "", "runtime_not_authenticated", "not_authenticated"),
        ("api_error", 403, "authentication_failed", "runtime_not_authenticated", "not_authenticated"),
        ("api_error", 0, "account_on_hold", "runtime_not_authenticated", "not_authenticated"),
        ("api_error", 400, "billing_error", "runtime_limit", "credit_used_up"),
        ("api_error", 429, "rate_limit", "runtime_limit", "rate_limit"),
        ("api_error", 529, "overloaded", "runtime_limit", "overloaded"),
        ("api_error", 404, "model_not_found", "runtime_error", "model_unavailable"),
        ("image_error", 413, "invalid_request", "runtime_error", "request_too_large"),
        ("prompt_too_long", 400, "invalid_request", "context_full", "context_full"),
        ("budget_exhausted", 0, "", "runtime_limit", "budget_exhausted"),
        ("max_turns", 0, "", "runtime_error", "max_turns"),
        ("api_error", 0, "max_output_tokens", "runtime_error", "output_limit"),
        ("api_error", 500, "server_error", "runtime_error", "service_error"),
        ("api_error", 0, "server_error", "runtime_error", "service_error"),
        ("aborted_tools", 0, "", "runtime_error", "interrupted"),
        ("aborted_streaming", 0, "", "runtime_error", "interrupted"),
        ("", 0, "", "runtime_error", "turn_failed"),
        ("api_error", 400, "unknown", "runtime_error", "history_refused"),
        ("a_new_reason", 418, "a_new_category", "runtime_error", "turn_failed"),
    ];
    for (terminal, status, category, reason, code) in rows {
        let got = classify(&result(terminal, status), Some(category), None);
        assert_eq!((got.reason.as_str(), got.code), (reason, code), "{terminal} {status} {category}");
        assert_eq!(got.sentence.is_none(), code == "interrupted");
    }
    let refusal = TurnResult { stop_reason: Some("refusal".into()), ..result("api_error", 0) };
    assert_eq!(classify(&refusal, Some("invalid_request"), None).code, "refused_by_model");
    assert_eq!(codes().count(), 15);
}

#[test]
fn c4_05_a_limit_says_when_it_ends_and_an_overload_does_not() {
    let rows = [
        (429, Some(1_900_000_000), "It ends at 2030-03-17 17:46 UTC."),
        (429, None, "Please try again later."),
        (429, Some(i64::MAX), "Please try again later."),
        (529, Some(1_900_000_000), "Please try again in a few minutes."),
    ];
    for (status, resets_at, ending) in rows {
        let sentence = classify(&result("api_error", status), None, resets_at).sentence.unwrap();
        assert!(sentence.ends_with(ending), "{sentence}");
    }
}

#[test]
fn c1_11_a_limit_is_told_in_our_own_words() {
    let failed = TurnResult {
        subtype: Some("success".into()),
        text: Some("You've hit your limit\nATTACH: ROOT/out/a.txt".into()),
        ..result("api_error", 429)
    };
    let sentence = classify(&failed, Some("rate_limit"), None).sentence.unwrap();
    assert!(!sentence.contains("hit your limit") && !sentence.contains("ATTACH"));
}

#[test]
fn start_faults_are_a_closed_table() {
    let id = "94b65fd4-9014-4e2d-b148-e4c177a09734";
    let rows = [
        (format!("No conversation found with session ID: {id}"), Some(StartFault::NoConversation)),
        (format!("Error: Session ID {id} is already in use.\n"), Some(StartFault::SessionInUse)),
        ("Error: Invalid session ID. Must be a valid UUID.".into(), Some(StartFault::InvalidSession)),
        (
            "Error: --resume requires a valid session ID or session title when used with --print.".into(),
            Some(StartFault::InvalidSession),
        ),
        (
            "Error: --session-id with --continue or --resume also needs --fork-session.".into(),
            Some(StartFault::InvalidSession),
        ),
        (
            "a warning\nError parsing streaming input line (type=unknown, 16 chars): SyntaxError".into(),
            Some(StartFault::InputRefused),
        ),
        ("Ignoring 4 permissions.allow entries from .claude/settings.json".into(), None),
        (String::new(), None),
    ];
    for (text, expected) in rows {
        assert_eq!(start_fault(&text), expected, "{text}");
    }
}
