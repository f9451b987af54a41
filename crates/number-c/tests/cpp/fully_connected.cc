/* The fully connected kernel of the thesis (figure III.2): the loop is that of float, its arrays are
 * Numbers with names, and sums are float. Reads a configuration file, and prints what it computes. */
#include <cstdio>
#include <exception>

#include "dyno_number.hpp"

using dyno::Number;

enum { INPUTS = 5, OUTPUTS = 3 };

static void fullyConnected(const Number *input, const Number *weight, const Number *bias,
                           float *output) {
    for (int o = 0; o < OUTPUTS; o++) {
        output[o] = bias[o].asFloat();
        for (int i = 0; i < INPUTS; i++) {
            output[o] += (input[i] * weight[o * INPUTS + i]).asFloat();
        }
    }
}

static int refused(const char *what) {
    try {
        Number::parseConfig(what);
    } catch (const std::exception &error) {
        std::printf("%s\n", error.what());
        return 0;
    }
    return 1;
}

int main(int count, char **arguments) {
    if (count != 2) {
        std::fprintf(stderr, "usage: fully_connected CONFIG\n");
        return 2;
    }
    if (refused("nowhere.conf")) {
        return 1;
    }
    Number::parseConfig(arguments[1]);
    Number input[INPUTS], weight[OUTPUTS * INPUTS], bias[OUTPUTS];
    dyno::setArrayName("fc1.input", input, INPUTS);
    dyno::setArrayName("fc1.weight", weight, OUTPUTS * INPUTS);
    dyno::setArrayName("fc1.bias", bias, OUTPUTS);
    for (int i = 0; i < INPUTS; i++) {
        input[i] = 0.37f * static_cast<float>(i) - 0.5f;
    }
    for (int i = 0; i < OUTPUTS * INPUTS; i++) {
        weight[i] = 0.9f - 0.13f * static_cast<float>(i);
    }
    for (int o = 0; o < OUTPUTS; o++) {
        bias[o] = o;
    }
    float output[OUTPUTS];
    fullyConnected(input, weight, bias, output);
    for (int o = 0; o < OUTPUTS; o++) {
        std::printf("%.9g\n", static_cast<double>(output[o]));
    }
    /* Without a name, the format comes with the value; with one, it stays. */
    Number loose = weight[0];
    loose = 0.3f;
    Number named;
    named.setName("fc1.weight");
    named = 0.3f;
    Number adopts;
    adopts = named + 1;
    char text[64];
    dyno_number_format format = named.format();
    dyno_number_format_print(&format, text, sizeof text);
    std::printf("%.9g %.9g %s\n", static_cast<double>(loose.asFloat()),
                static_cast<double>(named.asFloat()), text);
    format = adopts.format();
    dyno_number_format_print(&format, text, sizeof text);
    std::printf("%.9g %s %d %d %d\n", static_cast<double>(adopts.asFloat()), text,
                Number(-2.9f).asInt(), Number(3e9f).asInt(), (Number(7) * Number(6)).asInt());
    return 0;
}
