//! A logarithmic axis: equal steps for equal ratios.

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    values: [f64; 2],
    places: [f64; 2],
}

impl Scale {
    /// Between two values above 0.
    pub(super) fn between(values: [f64; 2], places: [f64; 2]) -> Self {
        Self { values, places }
    }

    /// From just below the smallest value to just above the largest.
    pub(super) fn around(values: impl Iterator<Item = f64> + Clone, places: [f64; 2]) -> Self {
        let valid = values.filter(|value| value.is_finite() && *value > 0.0);
        let least = valid.clone().fold(f64::INFINITY, f64::min);
        let largest = valid.fold(0.0, f64::max);
        let (least, largest) = if least <= largest { (least, largest) } else { (1.0, 10.0) };
        let below = round_values(least / 10.0, least * 0.95).into_iter().fold(least / 10.0, f64::max);
        let above = round_values(largest * 1.05, largest * 10.0).into_iter().fold(largest * 10.0, f64::min);
        Self { values: [below, above], places }
    }

    pub(super) fn place(&self, value: f64) -> f64 {
        let [from, to] = self.values.map(f64::ln);
        let share = (value.ln().max(from) - from) / (to - from);
        self.places[0] + share * (self.places[1] - self.places[0])
    }

    /// Round values along the axis, and those between them, for fine lines.
    pub(super) fn ticks(&self) -> (Vec<f64>, Vec<f64>) {
        let [from, to] = self.values;
        let all = round_values(from, to);
        let is_power = |value: &f64| (value.log10() - value.log10().round()).abs() < 1e-9;
        if (to / from).log10() > 2.2 { all.into_iter().partition(is_power) } else { (all, Vec::new()) }
    }
}

/// 1, 2 and 5 times every power of ten within the limits.
fn round_values(from: f64, to: f64) -> Vec<f64> {
    let powers = from.log10().floor() as i32..=to.log10().ceil() as i32;
    let all = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|n| n * 10_f64.powi(power)));
    all.filter(|value| (from * (1.0 - 1e-9)..=to * (1.0 + 1e-9)).contains(value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_ratios_are_equal_steps() {
        let scale = Scale::between([1.0, 100.0], [0.0, 200.0]);
        assert!((scale.place(10.0) - 100.0).abs() < 1e-9);
        let (ticks, fine) = scale.ticks();
        assert_eq!(ticks.len(), 7, "{ticks:?}");
        assert!(fine.is_empty());
    }

    #[test]
    fn there_is_room_at_both_ends() {
        let scale = Scale::around([0.3, 70.0].into_iter(), [0.0, 1.0]);
        assert!((scale.values[0] - 0.2).abs() < 1e-9 && (scale.values[1] - 100.0).abs() < 1e-9, "{scale:?}");
        let (ticks, fine) = Scale::around([0.3, 7000.0].into_iter(), [0.0, 1.0]).ticks();
        assert!(ticks.len() >= 5 && !fine.is_empty(), "{ticks:?} {fine:?}");
    }

    #[test]
    fn an_axis_without_values_is_still_an_axis() {
        let scale = Scale::around(std::iter::empty(), [0.0, 1.0]);
        assert!(scale.place(1.0).is_finite());
        assert!(Scale::around([5.0].into_iter(), [0.0, 1.0]).place(5.0).is_finite());
    }
}
