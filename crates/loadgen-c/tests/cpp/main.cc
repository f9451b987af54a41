// Runs one case: main CASE.

#include "harness.h"

Case* Case::first = nullptr;

int main(int argc, char** argv) {
  CHECK(argc == 2);
  for (const Case* c = Case::first; c != nullptr; c = c->next) {
    if (std::string(c->name) == argv[1]) {
      c->run();
      return 0;
    }
  }
  std::fprintf(stderr, "there is no case %s\n", argv[1]);
  return 1;
}
