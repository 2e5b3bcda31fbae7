//! What the turns of a run cost.
//!
//! Adds up what results report, for each process of the run on its own. Knows no wire type; the run makes the reports.

use std::collections::VecDeque;

use super::message::{Message, ModelUsage, Tokens, TurnResult};

#[cfg(test)]
mod tests;

/// Micros of one US dollar.
const MICROS: i128 = 1_000_000;

/// Decimals that are kept of a price. The CLI prints binary floats, which have up to 17 significant digits.
const DECIMALS: i32 = 24;

/// One micro in units of the last kept decimal.
const UNITS_PER_MICRO: i128 = 10_i128.pow(DECIMALS as u32) / MICROS;

/// How many messages are remembered to count each once. Lines of one message follow each other closely; only agents at
/// work at the same time come between.
const REMEMBERED: usize = 64;

/// What a run used on one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelCost {
    /// The model.
    pub model: String,
    /// Tokens.
    pub tokens: Tokens,
    /// Price in millionths of a US dollar, rounded half to even once, from the sum.
    pub amount_micros: i64,
}

/// Exact sums for one model.
#[derive(Clone, Debug, Default)]
struct Sum {
    tokens: Tokens,
    /// Price in units of the last kept decimal.
    units: i128,
}

/// Sums by model, in the order in which the models came.
type Sums = Vec<(String, Sum)>;

/// Usage of one process of the CLI.
#[derive(Debug, Default)]
struct Process {
    /// Sum of the deltas; `None` while no result printed one.
    deltas: Option<Sums>,
    /// The newest cumulative usage.
    last: Sums,
    has_result: bool,
}

/// Tokens of a run over all models, as far as the stream told them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoFar {
    /// Read.
    pub input: u64,
    /// Written. `None` before the first result: the number on a message's lines is that of its beginning.
    pub output: Option<u64>,
    /// Read from the cache.
    pub cache_read: u64,
    /// Written to the cache.
    pub cache_write: u64,
}

/// Usage of a run.
#[derive(Debug, Default)]
pub struct Usage {
    ended: Vec<Process>,
    current: Process,
    /// The newest messages whose tokens were counted.
    counted: VecDeque<String>,
    /// Tokens of all results, kept as a sum because it is asked for after each message.
    reported: Option<Tokens>,
    /// Tokens of the messages that no result has reported yet.
    unreported: Tokens,
    windows: Vec<(String, u64)>,
}

impl Usage {
    /// Usage of a run without a process.
    pub fn new() -> Usage {
        Usage::default()
    }

    /// A new process of the run begins; its numbers count from zero.
    pub fn process_started(&mut self) {
        let ended = std::mem::take(&mut self.current);
        self.ended.push(ended);
    }

    /// Takes the next message of the present process.
    pub fn on(&mut self, message: &Message) {
        match message {
            Message::Result(result) => self.on_result(result),
            Message::Assistant(assistant) => {
                if let (Some(id), Some(usage)) = (&assistant.id, assistant.usage)
                    && self.is_new(id)
                {
                    add_tokens(&mut self.unreported, usage);
                }
            }
            _ => {}
        }
    }

    fn is_new(&mut self, message: &str) -> bool {
        // Ids begin alike and end differently, so a comparison from the end sees a difference at once.
        let is_same =
            |known: &String| known.len() == message.len() && known.bytes().rev().eq(message.bytes().rev());
        if self.counted.iter().any(is_same) {
            return false;
        }
        self.counted.push_back(message.to_owned());
        if self.counted.len() > REMEMBERED {
            self.counted.pop_front();
        }
        true
    }

    fn on_result(&mut self, result: &TurnResult) {
        self.current.has_result = true;
        if let Some(usage) = &result.model_usage {
            self.current.last = Sums::new();
            add_all(&mut self.current.last, usage);
            self.keep_windows(usage);
        }
        if let Some(usage) = &result.model_usage_delta {
            add_all(self.current.deltas.get_or_insert_default(), usage);
            self.keep_windows(usage);
        }
        // A result that names no model says nothing of the messages before it.
        let named = result.model_usage_delta.as_ref().or(result.model_usage.as_ref());
        if named.is_some_and(|models| !models.is_empty()) {
            self.sum_up();
        }
    }

    fn sum_up(&mut self) {
        let costs = self.costs().unwrap_or_default();
        let mut sum = Tokens::default();
        costs.iter().for_each(|cost| add_tokens(&mut sum, cost.tokens));
        self.reported = Some(sum);
        self.unreported = Tokens::default();
    }

    fn keep_windows(&mut self, usage: &[(String, ModelUsage)]) {
        for (model, usage) in usage {
            if let Some(window) = usage.context_window.filter(|window| *window > 0) {
                *entry(&mut self.windows, model) = window;
            }
        }
    }

    /// What the run used, by model. `None` while no process printed a result: the cost is unknown then, not zero.
    pub fn costs(&self) -> Option<Vec<ModelCost>> {
        let mut all = Sums::new();
        let mut known = false;
        for process in self.ended.iter().chain([&self.current]) {
            known |= process.has_result;
            for (model, sum) in process.deltas.as_ref().unwrap_or(&process.last) {
                let total = entry(&mut all, model);
                add_tokens(&mut total.tokens, sum.tokens);
                total.units = total.units.saturating_add(sum.units);
            }
        }
        let cost = |(model, sum): (String, Sum)| ModelCost {
            model,
            tokens: sum.tokens,
            amount_micros: half_even_micros(sum.units),
        };
        known.then(|| all.into_iter().map(cost).collect())
    }

    /// Tokens of the run over all models: from the results, and since the newest one from the messages (each message id
    /// once).
    pub fn so_far(&self) -> SoFar {
        let mut sum = self.reported.unwrap_or_default();
        let output = self.reported.map(|reported| reported.output);
        add_tokens(&mut sum, self.unreported);
        SoFar { input: sum.input, output, cache_read: sum.cache_read, cache_write: sum.cache_write }
    }

    /// Sizes of the context windows that results named, tokens by model; worth keeping for the next run.
    pub fn context_windows(&self) -> &[(String, u64)] {
        &self.windows
    }
}

fn add_all(sums: &mut Sums, usage: &[(String, ModelUsage)]) {
    for (model, usage) in usage {
        let sum = entry(sums, model);
        add_tokens(&mut sum.tokens, usage.tokens);
        let units = usage.cost_usd.as_deref().and_then(units_of).unwrap_or_default();
        sum.units = sum.units.saturating_add(units);
    }
}

fn entry<'a, T: Default>(all: &'a mut Vec<(String, T)>, model: &str) -> &'a mut T {
    let at = all.iter().position(|(known, _)| known == model).unwrap_or_else(|| {
        all.push((model.to_owned(), T::default()));
        all.len() - 1
    });
    &mut all[at].1
}

fn add_tokens(sum: &mut Tokens, more: Tokens) {
    sum.input = sum.input.saturating_add(more.input);
    sum.output = sum.output.saturating_add(more.output);
    sum.cache_read = sum.cache_read.saturating_add(more.cache_read);
    sum.cache_write = sum.cache_write.saturating_add(more.cache_write);
}

/// A JSON number that is not negative, in units of the last kept decimal; decimals beyond are cut. `None` for
/// anything else and for a price beyond what the sum can hold.
fn units_of(number: &str) -> Option<i128> {
    let (digits, exponent) = match number.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (number, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut value: i128 = 0;
    // The power of ten of the last digit taken so far.
    let mut power = i32::try_from(fraction.len()).ok()?.checked_neg()?.checked_add(exponent)?;
    for digit in whole.bytes().chain(fraction.bytes()) {
        let digit = i128::from(digit.is_ascii_digit().then(|| digit - b'0')?);
        value = value.checked_mul(10)?.checked_add(digit)?;
    }
    while power < -DECIMALS && value > 0 {
        value /= 10;
        power += 1;
    }
    while power > -DECIMALS && value > 0 {
        value = value.checked_mul(10)?;
        power -= 1;
    }
    Some(value)
}

/// Rounds to micros, a tie to the even neighbour (M2-34 note 14).
fn half_even_micros(units: i128) -> i64 {
    let whole = units / UNITS_PER_MICRO;
    let twice = 2 * (units % UNITS_PER_MICRO);
    let up = twice > UNITS_PER_MICRO || (twice == UNITS_PER_MICRO && whole % 2 == 1);
    i64::try_from(whole + i128::from(up)).unwrap_or(i64::MAX)
}
