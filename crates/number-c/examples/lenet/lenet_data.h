/* What both versions of LeNet read and print: weights, images, and whether an answer is right. */
#ifndef LENET_DATA_H
#define LENET_DATA_H

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

enum { SIDE = 28, KERNEL = 5, CLASSES = 10 };

/* How many outputs its layers have: of two convolutions, each followed by a pool of 2 x 2 pixels, and of
 * the first fully connected layer; the second has the classes. */
struct Shape {
    int conv1, conv2, ip1;

    int pool1() const { return (SIDE - KERNEL + 1) / 2; }
    int pool2() const { return (pool1() - KERNEL + 1) / 2; }
    int ip1Inputs() const { return pool2() * pool2() * conv2; }
};

/* Weights of a layer, input by input, output by output (inputs of a convolution are rows, columns,
 * channels), and biases. */
struct Weights {
    std::vector<float> weight, bias;
};

/* Numbers of a file from the first on. */
class Reader {
public:
    explicit Reader(const std::string &path) : path_(path), next_(0) {
        std::ifstream file(path, std::ios::binary);
        if (!file) {
            throw std::runtime_error(path + " cannot be read");
        }
        bytes_.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    std::size_t size() const { return bytes_.size(); }
    int byte(std::size_t at) const {
        if (at >= bytes_.size()) {
            throw std::runtime_error(path_ + " ends before byte " + std::to_string(at));
        }
        return static_cast<unsigned char>(bytes_[at]);
    }
    /* Floats of IEEE 754, the lowest byte first. */
    std::vector<float> floats(int count) {
        std::vector<float> numbers(static_cast<std::size_t>(count));
        for (float &number : numbers) {
            std::uint32_t bits = 0;
            for (int i = 3; i >= 0; i--) {
                bits = bits << 8 | static_cast<std::uint32_t>(byte(next_ + static_cast<std::size_t>(i)));
            }
            static_assert(sizeof number == sizeof bits, "a float has 32 bits");
            std::copy_n(reinterpret_cast<const char *>(&bits), sizeof bits,
                        reinterpret_cast<char *>(&number));
            next_ += 4;
        }
        return numbers;
    }

private:
    std::string path_;
    std::vector<char> bytes_;
    std::size_t next_;
};

/* The network of a file, whose size says how many outputs its layers have: Caffe's, or a small one. */
struct Trained {
    Shape shape;
    Weights conv1, conv2, ip1, ip2;

    explicit Trained(const std::string &path) {
        Reader file(path);
        for (const Shape &known : {Shape{20, 50, 500}, Shape{4, 8, 32}}) {
            shape = known;
            const int inputs[] = {KERNEL * KERNEL, KERNEL * KERNEL * known.conv1, known.ip1Inputs(), known.ip1};
            const int outputs[] = {known.conv1, known.conv2, known.ip1, CLASSES};
            int numbers = 0;
            for (int i = 0; i < 4; i++) {
                numbers += (inputs[i] + 1) * outputs[i];
            }
            if (file.size() == 4 * static_cast<std::size_t>(numbers)) {
                Weights *const layers[] = {&conv1, &conv2, &ip1, &ip2};
                for (int i = 0; i < 4; i++) {
                    layers[i]->weight = file.floats(inputs[i] * outputs[i]);
                    layers[i]->bias = file.floats(outputs[i]);
                }
                return;
            }
        }
        throw std::runtime_error(path + " has not the weights of a LeNet: its size is another");
    }
};

/* What is asked for: usage: lenet WEIGHTS IMAGES LABELS FIRST COUNT [CONFIG]. Images are bytes, rows from
 * the top, 256 times their ink; labels are a byte each. With LENET_ANSWERS in the environment, answers are
 * written to that file, one a line. */
struct Task {
    std::string weights, config;
    Reader images, labels;
    int first, count;

    Task(int argument_count, char **arguments)
        : weights(at(argument_count, arguments, 1)), config(argument_count > 6 ? arguments[6] : ""),
          images(at(argument_count, arguments, 2)), labels(at(argument_count, arguments, 3)),
          first(std::atoi(at(argument_count, arguments, 4))),
          count(std::atoi(at(argument_count, arguments, 5))) {
        const long have = static_cast<long>(labels.size());
        if (first < 0 || count < 1 || long{first} + count > have ||
            images.size() != static_cast<std::size_t>(have) * SIDE * SIDE) {
            throw std::runtime_error("there are " + std::to_string(have) + " labels, " +
                                     std::to_string(images.size() / (SIDE * SIDE)) +
                                     " images, and others are asked for");
        }
    }
    float pixel(int image, int at) const {
        const std::size_t offset = static_cast<std::size_t>(image) * SIDE * SIDE;
        return static_cast<float>(images.byte(offset + static_cast<std::size_t>(at))) / 256.0f;
    }

    /* Asks for the answer to each image, and prints how many are right. */
    template <class Answer> int run(Answer answer) const {
        std::string answers;
        int right = 0;
        const std::clock_t start = std::clock();
        for (int image = first; image < first + count; image++) {
            const int found = answer(image);
            right += found == labels.byte(static_cast<std::size_t>(image)) ? 1 : 0;
            answers += std::to_string(found) + "\n";
        }
        const double took = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
        if (const char *path = std::getenv("LENET_ANSWERS")) {
            std::ofstream(path) << answers;
        }
        std::printf("%d of %d images are right, accuracy: %.6f\n%.6f ms of the processor an image\n",
                    right, count, static_cast<double>(right) / count, 1e3 * took / count);
        return 0;
    }

private:
    static const char *at(int count, char **arguments, int place) {
        if (place >= count) {
            throw std::runtime_error("usage: lenet WEIGHTS IMAGES LABELS FIRST COUNT [CONFIG]");
        }
        return arguments[place];
    }
};

#endif /* LENET_DATA_H */
