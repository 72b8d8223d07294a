"""A process of the tool environment that compiles a StableHLO program for a TPU.

python -P tpu_compile.py REQUEST.json, where REQUEST.json names the program's file, the
topology, its chip configuration (empty: libtpu's default), the number of replicas and
the files for the result and for the compiled program. No TPU is needed. It imports JAX,
NumPy and Python's own modules only, as it runs without this project's packages.
"""

import json
import os
import sys
import time

# Before JAX loads libtpu, which would otherwise ask the metadata server of a TPU VM,
# and refuse to be loaded by two processes, as no two may use one TPU.
os.environ.update(
    TPU_SKIP_MDS_QUERY="1",
    JAX_PLATFORMS="cpu",
    TPU_ACCELERATOR_TYPE="v5litepod-4",
    TPU_WORKER_HOSTNAMES="localhost",
    TPU_WORKER_ID="0",
    ALLOW_MULTIPLE_LIBTPU_LOAD="1",
)

import jax
import jax.experimental.topologies as topologies
import numpy as np
from jax._src import compiler
from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jax._src.lib.mlir import ir

_MAX_MESSAGE = 2000


def main(path: str) -> None:
    """Compiles what a request says, and writes the result or the compiler's error."""
    with open(path) as file:
        request = json.load(file)
    with open(request["program"]) as file:
        program = file.read()
    result, hlo = compile_program(
        program,
        request["topology"],
        request["chip_config"],
        request["num_replicas"],
    )
    with open(request["hlo"], "w") as file:
        file.write(hlo)
    with open(request["result"], "w") as file:
        json.dump(result, file)


def compile_program(
    program: str, topology: str, chip_config: str, num_replicas: int
) -> tuple[dict[str, object], str]:
    """Returns what the compiler says of a program, and the compiled program's text.

    Returns:
      `device_kind`, `num_cores` of a device, `seconds`, and either `memory` (bytes of
      `arguments`, `outputs`, `aliased`, `temporaries` and `code`) and `flops`, or
      `error`, a line. Without a program the text is empty.
    """
    with mlir.make_ir_context() as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(program)
    options = {"chip_config_name": chip_config} if chip_config else {}
    found: dict[str, object] = {}
    start = time.monotonic()
    try:
        devices = topologies.get_topology_desc(
            topology, platform="tpu", **options
        ).devices[:num_replicas]
        found["device_kind"] = devices[0].device_kind
        found["num_cores"] = devices[0].num_cores
        executable = devices[0].client.compile(
            module,
            xla_client.DeviceList(tuple(devices)),
            compiler.get_compile_options(
                num_replicas=num_replicas,
                num_partitions=1,
                device_assignment=np.array([[device.id] for device in devices]),
            ),
        )
    except jax.errors.JaxRuntimeError as error:
        seconds = time.monotonic() - start
        line = " ".join(str(error).split())[:_MAX_MESSAGE]
        return found | {"error": line, "seconds": seconds}, ""
    memory = executable.get_compiled_memory_stats()
    cost = executable.cost_analysis()
    cost = cost[0] if isinstance(cost, list) else cost
    found |= {
        "seconds": time.monotonic() - start,
        "memory": {
            "arguments": memory.argument_size_in_bytes,
            "outputs": memory.output_size_in_bytes,
            "aliased": memory.alias_size_in_bytes,
            "temporaries": memory.temp_size_in_bytes,
            "code": memory.generated_code_size_in_bytes,
        },
        "flops": cost["flops"],
    }
    return found, executable.hlo_modules()[0].to_string()


if __name__ == "__main__":
    main(sys.argv[1])
