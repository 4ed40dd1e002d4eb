"""All measurements, one after another: ``python -m benchmarks``."""

from . import bench_envs, bench_locomotion, bench_metastep

if __name__ == "__main__":
    bench_envs.main()
    print()
    bench_locomotion.main()
    print()
    bench_metastep.main()
