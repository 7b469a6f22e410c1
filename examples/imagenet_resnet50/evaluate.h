#pragma once
#include <cstdint>

#include "batch_source.h"
#include "compute.h"
#include "kolo/context.h"
#include "resnet.h"

namespace imagenet {

struct Evaluation {
  double loss = 0, top1 = 0, top5 = 0;  // means over all images of all ranks
  std::int64_t images = 0;
};

// In fp32, whatever the network computes in: losses are made of these.
at::Tensor logits_of(const Compute& compute, ResNet& model, const at::Tensor& images);

// BatchNorm's running statistics differ between ranks, each has seen other images: afterwards they are the mean on
// every rank, so that neither evaluation nor a checkpoint depends on who asks. Collective.
void average_statistics(kolo::Context& context, torch::nn::Module& model);

// Every image of every rank's source once. Collective, though ranks may have different numbers of batches, or none.
Evaluation evaluate(kolo::Context& context, const Compute& compute, ResNet& model, BatchSource& source);

}  // namespace imagenet
