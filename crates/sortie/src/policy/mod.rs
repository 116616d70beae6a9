//! How batches become submissions, and what is known of what they cost.
//!
//! A batch is cut never, after a number of ops, or (the default) where a submission would exceed a time budget of at
//! least 1 ms. The thread that sees a submission complete knows its device time and corrects the estimates (`costs`).
//! The CPU device has no watchdog: by default it cuts nothing, and it never divides a dispatch.

mod costs;

use std::{fmt, str::FromStr, time::Duration};

use sortie_plan::CutRule;

pub(crate) use self::costs::{CostKey, Costs, FinishedSubmissions, WorkEstimate};

/// How batches are cut into submissions, and how many of these are in flight at once.
///
/// The default cuts by time. The built-in CPU has no watchdog. It cuts nothing unless
/// [`DeviceOptions::policy`](crate::DeviceOptions::policy), the tuning file or the batch says so.
///
/// ```
/// use sortie::{Device, DeviceOptions, policy::{Split, SubmitPolicy}};
///
/// let policy = SubmitPolicy { split: Split::Every(64), ..Default::default() };
/// let device = Device::cpu_with(DeviceOptions::default().with_policy(policy))?;
/// assert_eq!(device.policy(), policy);
/// assert_eq!(policy.to_string(), "every 64 ops, 2 in flight");
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubmitPolicy {
    /// Where batches are cut, beyond their own [`split`](crate::Batch::split)s.
    pub split: Split,
    /// Most submissions in flight at once; further ones wait in order. At least 1.
    pub in_flight: usize,
}

impl Default for SubmitPolicy {
    fn default() -> Self {
        Self { split: Split::default(), in_flight: 2 }
    }
}

/// Where a batch is cut into submissions. The results are the same bits however it is cut.
///
/// The first submission of a batch is submitted as soon as it is encoded; the others are encoded while it runs.
///
/// ```
/// use std::time::Duration;
/// use sortie::policy::Split;
///
/// let split = Split::Adaptive { budget: Duration::from_millis(20) };
/// assert_eq!(split.to_string(), "adaptive, 20 ms");
/// assert_eq!("every 64 ops".parse(), Ok(Split::Every(64)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Split {
    /// Only at the batch's own splits.
    Never,
    /// After this many ops.
    Every(usize),
    /// A batch is one submission unless it is estimated to keep the device busy for longer than the budget. Then it is
    /// split into submissions that each stay under the budget. The first is a sixteenth of the budget, so that the
    /// device starts early, and each next one is twice the last. A dispatch that exceeds the budget by itself is
    /// divided too, except on the built-in CPU. Estimates are learned from the times of earlier submissions. For a
    /// kernel that has not run twice there is only a guess, because drivers compile kernels when they first run.
    Adaptive {
        /// The longest that a submission should take. Less than 1 ms counts as 1 ms: below that, submitting takes
        /// longer than the work. Watchdogs kill submissions after 2 s, and the screen is not redrawn while one runs.
        budget: Duration,
    },
}

impl Default for Split {
    /// Adaptive, with a budget of 100 ms.
    fn default() -> Self {
        Self::Adaptive { budget: Duration::from_millis(100) }
    }
}

/// Shorter budgets are useless: 600 dispatches, each a submission or several, took 25 s on lavapipe.
const LEAST_BUDGET: Duration = Duration::from_millis(1);

impl Split {
    pub(crate) fn rule(self) -> CutRule {
        match self {
            Self::Never => CutRule::Never,
            Self::Every(ops) => CutRule::Every(u32::try_from(ops).unwrap_or(u32::MAX)),
            Self::Adaptive { budget } => {
                CutRule::Budget(u64::try_from(budget.max(LEAST_BUDGET).as_nanos()).unwrap_or(u64::MAX))
            }
        }
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.pad("never split"),
            Self::Every(ops) => f.pad(&format!("every {ops} ops")),
            Self::Adaptive { budget } => f.pad(&format!("adaptive, {} ms", budget.as_secs_f64() * 1e3)),
        }
    }
}

impl fmt::Display for SubmitPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}, {} in flight", self.split, self.in_flight))
    }
}

/// The error of parsing a text that is not a [`Split`].
///
/// ```
/// let error = "now and then".parse::<sortie::policy::Split>().unwrap_err();
/// assert!(error.to_string().contains("`every 64 ops`"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a way to split, as `never split`, `every 64 ops` or `adaptive, 100 ms`")]
pub struct ParseSplitError(String);

impl FromStr for Split {
    type Err = ParseSplitError;

    /// Parses the output of [`Display`](fmt::Display), which is also the format in tuning files.
    fn from_str(text: &str) -> Result<Self, ParseSplitError> {
        let unknown = || ParseSplitError(text.into());
        if text == "never split" {
            return Ok(Self::Never);
        }
        if let Some(ops) = text.strip_prefix("every ").and_then(|rest| rest.strip_suffix(" ops")) {
            return ops.parse().ok().filter(|ops| *ops > 0).map(Self::Every).ok_or_else(unknown);
        }
        let budget = text.strip_prefix("adaptive, ").and_then(|rest| rest.strip_suffix(" ms"));
        let budget = budget.and_then(|ms| Duration::try_from_secs_f64(ms.parse::<f64>().ok()? / 1e3).ok());
        budget.map(|budget| Self::Adaptive { budget }).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let budgets = [1, 1_500, 100_000].map(|micros| Split::Adaptive { budget: Duration::from_micros(micros) });
        for split in [Split::Never, Split::Every(1), Split::Every(1024), Split::default()].into_iter().chain(budgets) {
            assert_eq!(split.to_string().parse(), Ok(split));
        }
    }

    #[test]
    fn other_texts_are_refused_with_what_would_do() {
        for text in
            ["", "never", "every 0 ops", "every -1 ops", "every ops", "adaptive", "adaptive, -1 ms", "adaptive, NaN ms"]
        {
            let error = text.parse::<Split>().expect_err(text);
            assert!(error.to_string().contains("every 64 ops"), "{error}");
        }
    }
}
