#pragma once
// Settings that all ranks must have alike, compared before anything is built on them.
#include "cluster/bootstrap.h"
#include "kolo/config.h"

namespace kolo::runtime {

// Collective. Throws MismatchError on every rank where ranks differ in a variable that is to be the same on all
// (ConfigRow::same_on_all): naming it, two ranks and their values.
void agree_on_settings(cluster::Bootstrap& bootstrap, const Config& config);

}  // namespace kolo::runtime
