//! From values to places on an axis.

/// Equal steps for equal differences, or for equal ratios.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    kind: Kind,
    values: [f64; 2],
    places: [f64; 2],
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Linear,
    Log,
}

impl Scale {
    pub(super) fn linear(values: [f64; 2], places: [f64; 2]) -> Self {
        Self { kind: Kind::Linear, values, places }
    }

    /// From just below the least value to just above the largest, which are above 0.
    pub(super) fn log(values: impl Iterator<Item = f64> + Clone, places: [f64; 2]) -> Self {
        let sound = values.filter(|value| value.is_finite() && *value > 0.0);
        let least = sound.clone().fold(f64::INFINITY, f64::min);
        let largest = sound.fold(0.0, f64::max);
        let (least, largest) = if least <= largest { (least, largest) } else { (1.0, 10.0) };
        let values = [below(least), above(largest.max(least * 1.01))];
        Self { kind: Kind::Log, values, places }
    }

    /// The same without room around it.
    pub(super) fn tight_log(values: [f64; 2], places: [f64; 2]) -> Self {
        Self { kind: Kind::Log, values, places }
    }

    pub(super) fn place(&self, value: f64) -> f64 {
        let [from, to] = self.values;
        let share = match self.kind {
            Kind::Linear => (value - from) / (to - from),
            Kind::Log => (value.max(from).ln() - from.ln()) / (to.ln() - from.ln()),
        };
        self.places[0] + share * (self.places[1] - self.places[0])
    }

    /// Round values along the axis, a handful; and those between them, for fine lines.
    pub(super) fn ticks(&self) -> (Vec<f64>, Vec<f64>) {
        let [from, to] = self.values;
        match self.kind {
            Kind::Linear => {
                let rough = (to - from) / 5.0;
                let power = 10_f64.powf(rough.log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|step| *step >= rough);
                let step = step.unwrap_or(power).max(f64::MIN_POSITIVE);
                let count = ((to - from) / step + 1e-9).floor() as u32;
                ((0..=count).map(|n| from + f64::from(n) * step).collect(), Vec::new())
            }
            Kind::Log => {
                let all = round_values(from, to);
                let decades = (to / from).log10();
                let tens = |value: &f64| (value.log10() - value.log10().round()).abs() < 1e-9;
                if decades > 2.2 { all.into_iter().partition(tens) } else { (all, Vec::new()) }
            }
        }
    }
}

/// 1, 2 and 5 times every power of ten within the limits.
fn round_values(from: f64, to: f64) -> Vec<f64> {
    let powers = from.log10().floor() as i32..=to.log10().ceil() as i32;
    let all = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|n| n * 10_f64.powi(power)));
    all.filter(|value| (from * (1.0 - 1e-9)..=to * (1.0 + 1e-9)).contains(value)).collect()
}

fn below(value: f64) -> f64 {
    round_values(value / 10.0, value * 0.95).into_iter().fold(value / 10.0, f64::max)
}

fn above(value: f64) -> f64 {
    round_values(value * 1.05, value * 10.0).into_iter().fold(value * 10.0, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_scale_has_equal_steps_for_equal_ratios() {
        let scale = Scale::tight_log([1.0, 100.0], [0.0, 200.0]);
        assert!((scale.place(10.0) - 100.0).abs() < 1e-9);
        let (ticks, fine) = scale.ticks();
        assert_eq!(ticks.len(), 7, "{ticks:?}");
        assert!(fine.is_empty());
    }

    #[test]
    fn a_log_scale_leaves_room_at_both_ends() {
        let scale = Scale::log([0.3, 70.0].into_iter(), [0.0, 1.0]);
        assert!((scale.values[0] - 0.2).abs() < 1e-9 && (scale.values[1] - 100.0).abs() < 1e-9, "{scale:?}");
        let (ticks, fine) = Scale::log([0.3, 7000.0].into_iter(), [0.0, 1.0]).ticks();
        assert!(ticks.len() >= 5 && !fine.is_empty(), "{ticks:?} {fine:?}");
    }

    #[test]
    fn a_linear_scale_has_round_ticks_from_its_start() {
        let (ticks, _) = Scale::linear([0.0, 47.0], [0.0, 1.0]).ticks();
        assert_eq!(ticks, [0.0, 10.0, 20.0, 30.0, 40.0]);
    }

    #[test]
    fn nothing_measured_is_still_an_axis() {
        let scale = Scale::log(std::iter::empty(), [0.0, 1.0]);
        assert!(scale.place(1.0).is_finite());
        assert!(Scale::log([5.0].into_iter(), [0.0, 1.0]).place(5.0).is_finite());
    }
}
