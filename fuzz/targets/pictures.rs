//! JPEG and PNG files, and what their metadata say: a whole picture, or an error.
#![no_main]

use dyno_task::image::decode::picture;
use dyno_task::image::orientation::stated;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = stated(bytes);
    match picture(bytes) {
        Ok(picture) => assert_eq!(picture.values.len(), picture.width * picture.height * 3),
        Err(why) => assert!(!why.is_empty()),
    }
});
