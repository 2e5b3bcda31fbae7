//! One run, one thread.

pub mod adopt;
pub mod answer;
pub mod cancel;
pub mod end;
pub mod finish;
pub mod followup;
pub mod live_box;
pub mod prepare;
pub mod record;
pub mod start;
pub mod title;
pub mod turn;
