//! Numbers as C writes them: the format of the reference's logs.

/// Formats like `%g` with 6 significant digits: the default format of a C++ stream.
///
/// Rust and glibc both round the exact binary value half to even, so that the digits agree. Only
/// the choice of notation is made here.
pub fn general(value: f64) -> String {
    const DIGITS: i32 = 6;
    if value.is_nan() {
        // Without a sign, which depends on the compiler.
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf".into() } else { "-inf".into() };
    }
    let scientific = format!("{:.*e}", (DIGITS - 1) as usize, value);
    let (mantissa, exponent) = scientific.split_once('e').expect("`e` format has an exponent");
    let exponent: i32 = exponent.parse().expect("`e` format has a decimal exponent");
    if (-4..DIGITS).contains(&exponent) {
        let decimals = usize::try_from(DIGITS - 1 - exponent).expect("exponent is below DIGITS");
        without_trailing_zeros(&format!("{value:.decimals$}")).to_string()
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", without_trailing_zeros(mantissa), exponent.abs())
    }
}

fn without_trailing_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

/// Formats like `%.2f`, with C's spelling of infinity and NaN.
pub fn fixed2(value: f64) -> String {
    if value.is_finite() { format!("{value:.2}") } else { general(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn general_equals_printf_percent_g() {
        // Expected values printed by glibc 2.36 with printf("%g").
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (200.0, "200"),
            (203.009, "203.009"),
            (1.162_96e-6, "1.16296e-06"),
            (833.333_333_333, "833.333"),
            (0.99, "0.99"),
            (0.999_999_5, "1"),
            (0.999_999_499, "0.999999"),
            (100_000.0, "100000"),
            (999_999.4, "999999"),
            (999_999.5, "1e+06"),
            (1_000_000.0, "1e+06"),
            (1_234_567.0, "1.23457e+06"),
            (0.0001, "0.0001"),
            (0.000_099_999_94, "9.99999e-05"),
            (0.000_099_999_96, "0.0001"),
            (1e-5, "1e-05"),
            (200_002.5, "200002"),
            (100_001.5, "100002"),
            (1.797_693_134_862_315_7e308, "1.79769e+308"),
            (5e-324, "4.94066e-324"),
            (-12_345_678.9, "-1.23457e+07"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(general(value), expected, "{value:e}");
        }
        assert_eq!(general(f64::NAN.copysign(-1.0)), "nan");
    }

    #[test]
    fn fixed_formats_round_half_to_even_on_exact_ties() {
        assert_eq!(fixed2(0.125), "0.12");
        assert_eq!(fixed2(0.375), "0.38");
        assert_eq!(fixed2(1e15), "1000000000000000.00");
        assert_eq!(fixed2(f64::INFINITY), "inf");
    }
}
