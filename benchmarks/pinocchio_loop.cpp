// SPDX-License-Identifier: Apache-2.0
// Pinocchio's regressor in a loop over samples, from C++: what benchmarks/regressor.py compares with.

#include <Eigen/Core>
#include <fstream>
#include <pinocchio/algorithm/regressor.hpp>
#include <pinocchio/multibody.hpp>
#include <pinocchio/serialization.hpp>
#include <string>

namespace {
struct Loop {
  pinocchio::Model model;
  pinocchio::Data data;
};
using Row = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
}  // namespace

extern "C" {

// A model that Python saved as text.
void* open_model(const char* path) {
  auto* loop = new Loop;
  pinocchio::serialization::loadFromText(loop->model, std::string(path));
  loop->data = pinocchio::Data(loop->model);
  return loop;
}

void close_model(void* handle) { delete static_cast<Loop*>(handle); }

// Samples by nq and nv; out has nv rows of 10 numbers a joint for each sample.
void run(void* handle, long samples, const double* q, const double* v, const double* a,
         double* out) {
  auto& [model, data] = *static_cast<Loop*>(handle);
  const auto size = data.jointTorqueRegressor.size();
  for (long i = 0; i < samples; ++i) {
    pinocchio::computeJointTorqueRegressor(
        model, data, Eigen::Map<const Eigen::VectorXd>(q + i * model.nq, model.nq),
        Eigen::Map<const Eigen::VectorXd>(v + i * model.nv, model.nv),
        Eigen::Map<const Eigen::VectorXd>(a + i * model.nv, model.nv));
    Eigen::Map<Row>(out + i * size, model.nv, size / model.nv) = data.jointTorqueRegressor;
  }
}
}
