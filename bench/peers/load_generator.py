#!/usr/bin/env python3
"""The load generator that comes with vLLM (`vllm bench serve`), as its package for CPUs has no command for it.

    load_generator.py ARGUMENTS OF vllm bench serve
"""
import argparse
import asyncio

from vllm.benchmarks.serve import add_cli_args, main_async

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
add_cli_args(parser)
asyncio.run(main_async(parser.parse_args()))
