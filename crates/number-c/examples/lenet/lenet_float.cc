/* LeNet in plain float: what a programmer has before there is a question of formats. */
#include "lenet_data.h"

/* Without padding; rows, columns, channels. */
static void convolution(int side, int channels, int outputs, const float *input, const float *weight,
                        const float *bias, float *output) {
    const int out = side - KERNEL + 1;
    for (int place = 0; place < out * out; place++) {
        float *sums = output + place * outputs;
        std::copy(bias, bias + outputs, sums);
        for (int tap = 0; tap < KERNEL * KERNEL * channels; tap++) {
            const int at = tap / channels, y = place / out + at / KERNEL, x = place % out + at % KERNEL;
            const float in = input[(y * side + x) * channels + tap % channels];
            for (int o = 0; o < outputs; o++) {
                sums[o] += in * weight[tap * outputs + o];
            }
        }
    }
}

static void fullyConnected(int inputs, int outputs, const float *input, const float *weight,
                           const float *bias, float *output) {
    std::copy(bias, bias + outputs, output);
    for (int i = 0; i < inputs; i++) {
        const float in = input[i];
        for (int o = 0; o < outputs; o++) {
            output[o] += in * weight[i * outputs + o];
        }
    }
}

/* The largest of 2 x 2 pixels. */
static void maxPool(int side, int channels, const float *input, float *output) {
    for (int place = 0; place < side / 2 * (side / 2) * channels; place++) {
        const int channel = place % channels, pixel = place / channels;
        const int y = pixel / (side / 2) * 2, x = pixel % (side / 2) * 2;
        const float *corner = input + (y * side + x) * channels + channel;
        const int below = side * channels;
        output[place] = std::max(std::max(corner[0], corner[channels]),
                                 std::max(corner[below], corner[below + channels]));
    }
}

static void relu(int count, const float *input, float *output) {
    for (int i = 0; i < count; i++) {
        output[i] = std::max(input[i], 0.0f);
    }
}

static int lenet(const Task &task) {
    const Trained net(task.weights);
    const Shape shape = net.shape;
    const int side1 = shape.pool1(), side2 = shape.pool2();
    std::vector<float> conv1_input(SIDE * SIDE), conv1_weight(net.conv1.weight.size());
    std::vector<float> conv2_input(side1 * side1 * shape.conv1), conv2_weight(net.conv2.weight.size());
    std::vector<float> ip1_input(shape.ip1Inputs()), ip1_weight(net.ip1.weight.size());
    std::vector<float> ip2_input(shape.ip1), ip2_weight(net.ip2.weight.size());
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
