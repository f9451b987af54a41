//! Seats of the workers of a run.

/// Returns the index of the seat for a worker that requests `wanted`, from 1; 0 means any.
///
/// # Errors
/// Why there is no such seat.
pub fn choose<T>(seats: &[Option<T>], wanted: u32) -> Result<usize, String> {
    let Some(at) = (wanted as usize).checked_sub(1) else {
        return seats.iter().position(Option::is_none).ok_or_else(|| "no seat is free".into());
    };
    match seats.get(at) {
        Some(None) => Ok(at),
        Some(Some(_)) => Err(format!("seat {wanted} is taken by another worker")),
        None => {
            let workers = if seats.len() == 1 { "worker" } else { "workers" };
            Err(format!("seat {wanted} does not exist: the run has {} {workers}", seats.len()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requested_seat_is_not_replaced_by_another_one() {
        let seats = [None, Some("second"), None];
        assert_eq!(choose(&seats, 0), Ok(0));
        assert_eq!(choose(&seats, 3), Ok(2));
        assert_eq!(choose(&seats, 2).unwrap_err(), "seat 2 is taken by another worker");
        let problem = choose(&seats, 4).unwrap_err();
        assert_eq!(problem, "seat 4 does not exist: the run has 3 workers");
        assert!(choose(&[Some(1)], 0).is_err());
    }
}
