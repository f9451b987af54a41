/* A program that exports what the Python module exports: samples that are completed without a test
 * of this library go there, each call once. */
#include <stdbool.h>

#include "check.h"

bool dyno_module_complete(dyno_response *responses, size_t count,
                          void (*fetch)(void *, dyno_response *), void *context);
bool dyno_module_first_token(const dyno_response *responses, size_t count);

static bool runs;
static size_t completed, fetched, first_tokens;

bool dyno_module_complete(dyno_response *responses, size_t count,
                          void (*fetch)(void *, dyno_response *), void *context) {
    if (runs && fetch != NULL) {
        fetch(context, responses);
    }
    completed += runs ? count : 0;
    return runs;
}

bool dyno_module_first_token(const dyno_response *responses, size_t count) {
    CHECK(responses[0].id == 7);
    first_tokens += runs ? count : 0;
    return runs;
}

static void fetch(void *context, dyno_response *response) {
    CHECK(response->id == 7);
    ++*(size_t *)context;
}

int main(void) {
    dyno_response responses[2] = {{.id = 7}, {.id = 8}};
    CHECK_RESULT(dyno_complete(responses, 2), DYNO_ERROR_NOT_RUNNING, "no test is running");
    runs = true;
    CHECK_OK(dyno_complete(responses, 2));
    CHECK_OK(dyno_first_token(responses, 2));
    CHECK_OK(dyno_complete_fetching(responses, 2, fetch, &fetched));
    CHECK(completed == 4 && first_tokens == 2 && fetched == 1);
    return 0;
}
