//! Parallel execution of independent runs on all cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use dyno_experiment::{Failure, environment};

/// Returns the results of `work` in the order of `items`. Progress lines start with `name`.
///
/// # Errors
/// Returns the error of the first item that failed.
pub fn spread<T: Sync, R: Send>(
    name: &str,
    items: &[T],
    work: impl Fn(&T) -> Result<R, Failure> + Sync,
) -> Result<Vec<R>, Failure> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let turn = || {
        while let Some((at, item)) = {
            let at = next.fetch_add(1, Ordering::Relaxed);
            items.get(at).map(|item| (at, item))
        } {
            let result = work(item);
            let mut results = results.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            results.push((at, result));
            let done = results.len();
            // One progress line per tenth of the items.
            if items.len() >= 30 && done * 10 / items.len() != (done - 1) * 10 / items.len() {
                eprintln!("npu study: {name}: {done} of {}", items.len());
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..environment::cores().min(items.len()) {
            // Without a further thread, the others do its part.
            let _ = std::thread::Builder::new().spawn_scoped(scope, turn);
        }
        turn();
    });
    let mut results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_and_the_first_error_is_returned() {
        let items: Vec<u32> = (0..40).collect();
        let doubled = spread("double", &items, |item| Ok(2 * item)).unwrap();
        assert!(doubled.iter().zip(&items).all(|(doubled, item)| *doubled == 2 * item));
        let failed = spread("fail", &items, |item| match item {
            0..30 => Ok(()),
            _ => Err(Failure::usage(format!("no {item}"))),
        });
        assert_eq!(failed.unwrap_err().problems(), ["no 30"]);
    }
}
