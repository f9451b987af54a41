/* LeNet with Numbers, whose formats a configuration file says; or, compiled with
 * -DLENET_TYPES='"types.hpp"', with the types that `dyno tune emit` made of such a file. */
#include "lenet_data.h"

#ifdef LENET_TYPES
#include LENET_TYPES
#else
#include "dyno_number.hpp"
namespace tuned {
using dyno::parseConfig;
using conv1_input = dyno::Number;
using conv1_weight = dyno::Number;
using conv2_input = dyno::Number;
using conv2_weight = dyno::Number;
using ip1_input = dyno::Number;
using ip1_weight = dyno::Number;
using ip2_input = dyno::Number;
using ip2_weight = dyno::Number;
} // namespace tuned
#endif

/* Without padding; rows, columns, channels. */
template <class Input, class Weight>
static void convolution(int side, int channels, int outputs, const Input *input, const Weight *weight,
                        const float *bias, float *output) {
    const int out = side - KERNEL + 1;
    for (int place = 0; place < out * out; place++) {
        float *sums = output + place * outputs;
        std::copy(bias, bias + outputs, sums);
        for (int tap = 0; tap < KERNEL * KERNEL * channels; tap++) {
            const int at = tap / channels, y = place / out + at / KERNEL, x = place % out + at % KERNEL;
            const float in = input[(y * side + x) * channels + tap % channels].asFloat();
            for (int o = 0; o < outputs; o++) {
                sums[o] += in * weight[tap * outputs + o].asFloat();
            }
        }
    }
}

template <class Input, class Weight>
static void fullyConnected(int inputs, int outputs, const Input *input, const Weight *weight,
                           const float *bias, float *output) {
    std::copy(bias, bias + outputs, output);
    for (int i = 0; i < inputs; i++) {
        const float in = input[i].asFloat();
        for (int o = 0; o < outputs; o++) {
            output[o] += in * weight[i * outputs + o].asFloat();
        }
    }
}

/* The largest of 2 x 2 pixels. */
template <class Output>
static void maxPool(int side, int channels, const float *input, Output *output) {
    for (int place = 0; place < side / 2 * (side / 2) * channels; place++) {
        const int channel = place % channels, pixel = place / channels;
        const int y = pixel / (side / 2) * 2, x = pixel % (side / 2) * 2;
        const float *corner = input + (y * side + x) * channels + channel;
        const int below = side * channels;
        output[place] = std::max(std::max(corner[0], corner[channels]),
                                 std::max(corner[below], corner[below + channels]));
    }
}

template <class Output> static void relu(int count, const float *input, Output *output) {
    for (int i = 0; i < count; i++) {
        output[i] = std::max(input[i], 0.0f);
    }
}

static int lenet(const Task &task) {
    if (!task.config.empty()) {
        tuned::parseConfig(task.config);
    }
    const Trained net(task.weights);
    const Shape shape = net.shape;
    const int side1 = shape.pool1(), side2 = shape.pool2();
    std::vector<tuned::conv1_input> conv1_input(SIDE * SIDE);
    std::vector<tuned::conv1_weight> conv1_weight(net.conv1.weight.size());
    std::vector<tuned::conv2_input> conv2_input(side1 * side1 * shape.conv1);
    std::vector<tuned::conv2_weight> conv2_weight(net.conv2.weight.size());
    std::vector<tuned::ip1_input> ip1_input(shape.ip1Inputs());
    std::vector<tuned::ip1_weight> ip1_weight(net.ip1.weight.size());
    std::vector<tuned::ip2_input> ip2_input(shape.ip1);
    std::vector<tuned::ip2_weight> ip2_weight(net.ip2.weight.size());
    dyno::setArrayName("conv1.input", conv1_input.data(), conv1_input.size());
    dyno::setArrayName("conv1.weight", conv1_weight.data(), conv1_weight.size());
    dyno::setArrayName("conv2.input", conv2_input.data(), conv2_input.size());
    dyno::setArrayName("conv2.weight", conv2_weight.data(), conv2_weight.size());
    dyno::setArrayName("ip1.input", ip1_input.data(), ip1_input.size());
    dyno::setArrayName("ip1.weight", ip1_weight.data(), ip1_weight.size());
    dyno::setArrayName("ip2.input", ip2_input.data(), ip2_input.size());
    dyno::setArrayName("ip2.weight", ip2_weight.data(), ip2_weight.size());
    std::copy(net.conv1.weight.begin(), net.conv1.weight.end(), conv1_weight.begin());
    std::copy(net.conv2.weight.begin(), net.conv2.weight.end(), conv2_weight.begin());
    std::copy(net.ip1.weight.begin(), net.ip1.weight.end(), ip1_weight.begin());
    std::copy(net.ip2.weight.begin(), net.ip2.weight.end(), ip2_weight.begin());
    std::vector<float> maps1(4 * conv2_input.size()), maps2(4 * ip1_input.size());
    std::vector<float> hidden(ip2_input.size()), scores(CLASSES);
    return task.run([&](int image) {
        for (int i = 0; i < SIDE * SIDE; i++) {
            conv1_input[i] = task.pixel(image, i);
        }
        convolution(SIDE, 1, shape.conv1, conv1_input.data(), conv1_weight.data(), net.conv1.bias.data(),
                    maps1.data());
        maxPool(2 * side1, shape.conv1, maps1.data(), conv2_input.data());
        convolution(side1, shape.conv1, shape.conv2, conv2_input.data(), conv2_weight.data(),
                    net.conv2.bias.data(), maps2.data());
        maxPool(2 * side2, shape.conv2, maps2.data(), ip1_input.data());
        fullyConnected(shape.ip1Inputs(), shape.ip1, ip1_input.data(), ip1_weight.data(),
                       net.ip1.bias.data(), hidden.data());
        relu(shape.ip1, hidden.data(), ip2_input.data());
        fullyConnected(shape.ip1, CLASSES, ip2_input.data(), ip2_weight.data(), net.ip2.bias.data(),
                       scores.data());
        return static_cast<int>(std::max_element(scores.begin(), scores.end()) - scores.begin());
    });
}

int main(int count, char **arguments) {
    try {
        return lenet(Task(count, arguments));
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
