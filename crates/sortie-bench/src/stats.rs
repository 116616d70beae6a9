//! Medians and quantiles of samples. Values that are not finite stand for absent samples and are left out.

/// The median; not a number if there are no samples.
pub fn median(samples: impl IntoIterator<Item = f64>) -> f64 {
    quantile(samples, 0.5)
}

/// The sample that this share of all samples is below; not a number if there are no samples.
pub fn quantile(samples: impl IntoIterator<Item = f64>, share: f64) -> f64 {
    let mut samples: Vec<f64> = samples.into_iter().filter(|sample| sample.is_finite()).collect();
    samples.sort_by(f64::total_cmp);
    let at = (samples.len() as f64 * share) as usize;
    samples.get(at).or(samples.last()).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_one_of_the_samples() {
        let samples = [3.0, 1.0, f64::NAN, 2.0, 4.0];
        assert_eq!([0.0, 0.25, 0.5, 1.0].map(|share| quantile(samples, share)), [1.0, 2.0, 3.0, 4.0]);
        assert!(median([]).is_nan() && median([f64::NAN]).is_nan());
    }
}
