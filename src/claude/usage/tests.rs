use super::*;
use crate::claude::message::Assistant;

fn model(name: &str, cost: &str, input: u64) -> (String, ModelUsage) {
    let tokens = Tokens { input, ..Tokens::default() };
    (name.into(), ModelUsage { tokens, cost_usd: Some(cost.into()), context_window: Some(200_000) })
}

type Models<'a> = &'a [(&'a str, &'a str)];

/// Name, cumulative usage, usage of this run, amounts.
type RunRow<'a> = (&'a str, Models<'a>, Models<'a>, &'a [(&'a str, i64)]);

fn result(total: Models<'_>, delta: Option<Models<'_>>) -> Message {
    let all = |models: Models<'_>| models.iter().map(|(name, cost)| model(name, cost, 10)).collect();
    Message::Result(Box::new(TurnResult {
        model_usage: Some(all(total)),
        model_usage_delta: delta.map(all),
        ..TurnResult::default()
    }))
}

fn amounts(usage: &Usage) -> Option<Vec<(String, i64)>> {
    Some(usage.costs()?.into_iter().map(|cost| (cost.model, cost.amount_micros)).collect())
}

fn expect(rows: &[(&str, i64)]) -> Option<Vec<(String, i64)>> {
    Some(rows.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect())
}

#[test]
fn micros_are_exact_and_half_even() {
    let rows = [
        ("0", 0),
        ("0.0045000000000000005", 4500),
        ("0.022088999999999998", 22_089),
        ("0.0000005", 0),
        ("0.0000015", 2),
        ("0.0000025", 2),
        ("0.00000250000000000000001", 3),
        ("2.5e-6", 2),
        ("3.5e-6", 4),
        ("1E2", 100_000_000),
        ("12", 12_000_000),
        ("1e-400", 0),
        ("1e400", 0),
        ("-1", 0),
        ("\"0.5\"", 0),
        ("null", 0),
    ];
    for (number, micros) in rows {
        assert_eq!(half_even_micros(units_of(number).unwrap_or_default()), micros, "{number}");
    }
}

#[test]
fn c3_07_each_run_pays_what_its_own_results_say() {
    let runs: [RunRow<'_>; 4] = [
        ("run 1, failed", &[("alpha", "0.40")], &[("alpha", "0.40")], &[("alpha", 400_000)]),
        ("run 2", &[("alpha", "0.40"), ("beta", "0.10")], &[("beta", "0.10")], &[("beta", 100_000)]),
        (
            "run 3",
            &[("alpha", "0.45"), ("beta", "0.10"), ("gamma", "0.02")],
            &[("alpha", "0.05"), ("gamma", "0.02")],
            &[("alpha", 50_000), ("gamma", 20_000)],
        ),
        (
            "run 4, a renamed key",
            &[("alpha-20260101", "0.48"), ("beta", "0.10"), ("gamma", "0.02")],
            &[("alpha-20260101", "0.03")],
            &[("alpha-20260101", 30_000)],
        ),
    ];
    for (name, total, delta, expected) in runs {
        let mut usage = Usage::new();
        usage.on(&result(total, Some(delta)));
        assert_eq!(amounts(&usage), expect(expected), "{name}");
    }
}

#[test]
fn deltas_add_up_over_results_and_processes() {
    let mut usage = Usage::new();
    usage.on(&result(&[("alpha", "0.1")], Some(&[("alpha", "0.1")])));
    usage.on(&result(&[("alpha", "0.3")], Some(&[("alpha", "0.2")])));
    usage.process_started();
    usage.on(&result(&[("alpha", "0.35")], Some(&[("alpha", "0.05")])));
    assert_eq!(amounts(&usage), expect(&[("alpha", 350_000)]));
    assert_eq!(usage.so_far().input, 30);
    assert_eq!(usage.context_windows(), [("alpha".to_owned(), 200_000)]);
}

#[test]
fn without_deltas_the_last_usage_of_each_process_counts() {
    let mut usage = Usage::new();
    usage.on(&result(&[("alpha", "0.1")], None));
    usage.on(&result(&[("alpha", "0.3"), ("beta", "0.01")], None));
    usage.process_started();
    usage.on(&result(&[("alpha", "0.05")], None));
    assert_eq!(amounts(&usage), expect(&[("alpha", 350_000), ("beta", 10_000)]));
}

#[test]
fn no_result_is_no_cost_and_not_zero() {
    let mut usage = Usage::new();
    assert_eq!(usage.costs(), None);
    usage.process_started();
    assert_eq!(usage.costs(), None);
    usage.on(&result(&[], None));
    assert_eq!(usage.costs(), Some(Vec::new()));
}

/// A line of a message that read this many tokens; the number of written ones is that of its beginning.
fn line(id: &str, input: u64) -> Message {
    let usage = Some(Tokens { input, output: 1, cache_read: 3, ..Tokens::default() });
    Message::Assistant(Assistant { id: Some(id.into()), usage, ..Assistant::default() })
}

#[test]
fn c1_13_tokens_of_a_message_count_once() {
    let mut usage = Usage::new();
    for id in ["m", "m", "m", "n"] {
        usage.on(&line(id, 7));
    }
    assert_eq!(usage.so_far(), SoFar { input: 14, output: None, cache_read: 6, cache_write: 0 });
}

#[test]
fn a_result_takes_the_place_of_its_messages() {
    let mut usage = Usage::new();
    usage.on(&line("m", 7));
    usage.on(&result(&[("alpha", "0.1")], Some(&[("alpha", "0.1")])));
    assert_eq!(usage.so_far(), SoFar { input: 10, output: Some(0), ..SoFar::default() });
    usage.on(&line("n", 4));
    assert_eq!(usage.so_far(), SoFar { input: 14, output: Some(0), cache_read: 3, cache_write: 0 });
    usage.on(&result(&[], None));
    assert_eq!(usage.so_far().input, 14, "a result that names no model says nothing of them");
    usage.process_started();
    usage.on(&line("o", 2));
    assert_eq!(usage.so_far().input, 16);
}
