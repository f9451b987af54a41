// Runs a recurrent network on sequences of different lengths, from C++.
//
//   rnn MODEL
//
// MODEL is a file .onnx or .safetensors, or a layer by its shape such as gru:64x128.
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "dyno_rnn.h"

namespace {

struct Free {
    void operator()(dyno_rnn_model *model) const { dyno_rnn_free(model); }
};

using Model = std::unique_ptr<dyno_rnn_model, Free>;

void check(dyno_rnn_result result) {
    if (result != DYNO_RNN_OK) throw std::runtime_error(dyno_rnn_last_error());
}

Model open(const std::string &name) {
    Model model(dyno_rnn_open(name.c_str(), nullptr));
    if (!model) throw std::runtime_error(dyno_rnn_last_error());
    return model;
}

// Outputs of a batch: steps x rows x outputs.
std::vector<float> run(dyno_rnn_model *model, const dyno_rnn_shape &shape,
                       const std::vector<float> &input, const std::vector<size_t> &lengths) {
    std::vector<float> output(input.size() / shape.inputs * shape.outputs);
    dyno_rnn_batch batch = {};
    batch.rows = lengths.size();
    batch.lengths = lengths.data();
    batch.input = input.data();
    batch.input_count = input.size();
    batch.output = output.data();
    batch.output_count = output.size();
    check(dyno_rnn_run(model, &batch));
    return output;
}

}  // namespace

int main(int count, char **arguments) {
    try {
        const Model model = open(count > 1 ? arguments[1] : "gru:64x128");
        dyno_rnn_shape shape;
        check(dyno_rnn_get_shape(model.get(), &shape));
        const std::vector<size_t> lengths = {5, 3};
        const std::vector<float> input(5 * lengths.size() * shape.inputs, 0.5f);
        const std::vector<float> output = run(model.get(), shape, input, lengths);
        // The last step of row 1, and zeros behind it.
        const size_t row = lengths.size() * shape.outputs;
        const auto last = output.begin() + static_cast<std::ptrdiff_t>((lengths[1] - 1) * row + shape.outputs);
        const std::vector<float> state(last, last + static_cast<std::ptrdiff_t>(shape.outputs));
        std::printf("last state of row 1: %zu numbers, the first %.4f\n", state.size(), state[0]);
    } catch (const std::exception &error) {
        std::printf("%s\n", error.what());
    }
    return 0;
}
