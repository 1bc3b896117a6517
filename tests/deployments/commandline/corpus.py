"""Command lines as people write and paste them: what each becomes, or the sentence that refuses it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Taken:
    """A text that is understood. ``note``: the beginning of a sentence that the person gets with it."""

    name: str
    text: str
    argv: list[str]
    env: dict[str, str] = field(default_factory=dict)
    workdir: str = ""
    port: int = 0
    engine: str | None = None
    container: dict[str, Any] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Refused:
    """A text that is not: what its sentence must say."""

    name: str
    text: str
    says: str


def docker(image: str, *options: str, tool: str = "docker") -> dict[str, Any]:
    return {"tool": tool, "image": image, "options": list(options)}


QWEN = ["python3", "-m", "sglang.launch_server", "--model-path", "Qwen/Qwen3-8B"]

SGLANG = [
    Taken("readme", "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B", QWEN, port=30000, engine="sglang"),
    Taken(
        "readme with host and port",
        "python -m sglang.launch_server --model-path qwen/qwen2.5-0.5b-instruct --host 0.0.0.0 --port 31000",
        ["python", "-m", "sglang.launch_server", "--model-path", "qwen/qwen2.5-0.5b-instruct", "--host", "0.0.0.0",
         "--port", "31000"],
        port=31000, engine="sglang",
    ),
    Taken(
        "serve", "sglang serve --model-path /models/x --port=30001",
        ["sglang", "serve", "--model-path", "/models/x", "--port=30001"], port=30001, engine="sglang",
    ),
    Taken("serve, the model alone", "sglang serve Qwen/Qwen3-8B", ["sglang", "serve", "Qwen/Qwen3-8B"], port=30000,
          engine="sglang"),
    Taken(
        "continued lines", "python3 -m sglang.launch_server \\\n  --model-path Qwen/Qwen3-8B \\\n  --tp 2 \\\n  --trust-remote-code\n",
        [*QWEN, "--tp", "2", "--trust-remote-code"], port=30000, engine="sglang",
    ),
    Taken(
        "Windows line ends", "python3 -m sglang.launch_server \\\r\n  --model-path Qwen/Qwen3-8B\r\n", QWEN, port=30000,
        engine="sglang",
    ),
    Taken(
        "old Mac line ends", "python3 -m sglang.launch_server \\\r  --model-path Qwen/Qwen3-8B\r", QWEN, port=30000,
        engine="sglang",
    ),
    Taken(
        "blanks after the backslash", "python3 -m sglang.launch_server \\ \t\n  --model-path Qwen/Qwen3-8B", QWEN,
        port=30000, engine="sglang", note="Line 1 has blanks after its backslash",
    ),
    Taken("tabs", "python3\t-m\tsglang.launch_server\t--model-path\tQwen/Qwen3-8B", QWEN, port=30000, engine="sglang"),
    Taken(
        "non-breaking spaces", "python3 -m sglang.launch_server\u00a0--model-path\u00a0Qwen/Qwen3-8B", QWEN, port=30000,
        engine="sglang", note="It held a non-breaking space, U+00A0",
    ),
    Taken(
        "an unseen letter in front", "\ufeffpython3 -m sglang.launch_server --model-path Qwen/Qwen3-8B\u200b", QWEN,
        port=30000, engine="sglang", note="It held a letter that does not show (byte order mark, U+FEFF)",
    ),
    Taken(
        "JSON in single quotes",
        "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --json-model-override-args "
        """'{"architectures": ["Qwen3ForCausalLM"], "rope_scaling": {"factor": 4.0}}'""",
        [*QWEN, "--json-model-override-args",
         '{"architectures": ["Qwen3ForCausalLM"], "rope_scaling": {"factor": 4.0}}'],
        port=30000, engine="sglang",
    ),
    Taken(
        "JSON in double quotes", 'python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --x "{\\"a\\": \\"\\$b\\"}"',
        [*QWEN, "--x", '{"a": "$b"}'], port=30000, engine="sglang",
    ),
    Taken(
        "speculative decoding of a hybrid model",
        "SGLANG_ENABLE_SPEC_V2=1 python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --tp 2 "
        "--speculative-algorithm NEXTN --speculative-num-steps 3 --speculative-eagle-topk 1 "
        "--speculative-num-draft-tokens 4 --mem-fraction-static 0.88 --mamba-full-memory-ratio 0.5",
        [*QWEN, "--tp", "2", "--speculative-algorithm", "NEXTN", "--speculative-num-steps", "3",
         "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4", "--mem-fraction-static", "0.88",
         "--mamba-full-memory-ratio", "0.5"],
        {"SGLANG_ENABLE_SPEC_V2": "1"}, port=30000, engine="sglang",
    ),
    Taken(
        "nohup into the background",
        "CUDA_VISIBLE_DEVICES=0,1 nohup python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B > server.log 2>&1 &",
        QWEN, {"CUDA_VISIBLE_DEVICES": "0,1"}, port=30000, engine="sglang",
    ),
    Taken(
        "nohup with a log by date and its pid kept",
        "nohup python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B >> logs/$(date +%F).log 2>&1 & echo $! > s.pid",
        QWEN, port=30000, engine="sglang",
    ),
    Taken(
        "setsid and disown", "setsid -f nohup python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B &>/dev/null </dev/null & disown",
        QWEN, port=30000, engine="sglang",
    ),
    Taken(
        "tee", "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B 2>&1 | tee -a server.log", QWEN, port=30000,
        engine="sglang", note="| tee was left out",
    ),
    Taken(
        "env", "env NCCL_DEBUG=INFO 'A=two words' python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B", QWEN,
        {"NCCL_DEBUG": "INFO", "A": "two words"}, port=30000, engine="sglang",
    ),
    Taken(
        "a folder first", "cd /srv/sglang && python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B", QWEN,
        workdir="/srv/sglang", port=30000, engine="sglang",
    ),
    Taken(
        "a whole start script",
        "#!/bin/bash\nset -euo pipefail\n# cards 0 and 1\nexport CUDA_VISIBLE_DEVICES=0,1\nexport OMP_NUM_THREADS=8 "
        "TOKENIZERS_PARALLELISM=false\ncd '/srv/my models'\n\nexec python3 -m sglang.launch_server \\\n"
        "    --model-path Qwen/Qwen3-8B  # the small one\n",
        QWEN, {"CUDA_VISIBLE_DEVICES": "0,1", "OMP_NUM_THREADS": "8", "TOKENIZERS_PARALLELISM": "false"},
        "/srv/my models", port=30000, engine="sglang",
    ),
    Taken("a copied prompt", "$ python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B", QWEN, port=30000,
          engine="sglang"),
    Taken(
        "a file of the engine", "/opt/sglang/bin/python /opt/sglang/python/sglang/launch_server.py --model-path /m",
        ["/opt/sglang/bin/python", "/opt/sglang/python/sglang/launch_server.py", "--model-path", "/m"], port=30000,
        engine="sglang",
    ),
]  # fmt: skip

ENVIRONMENTS = [
    Taken(
        "a venv", "source /srv/venv/bin/activate && python -m sglang.launch_server --model-path /m",
        ["/srv/venv/bin/python", "-m", "sglang.launch_server", "--model-path", "/m"], port=30000, engine="sglang",
        note="The environment is not activated: /srv/venv/bin/python",
    ),
    Taken(
        "a venv beside the folder", "cd /srv/app && . ./venv/bin/activate && vllm serve /m",
        ["/srv/app/venv/bin/vllm", "serve", "/m"], workdir="/srv/app", port=8000, engine="vllm",
    ),
    Taken(
        "a venv, the program by its own path", "source /srv/venv/bin/activate; /usr/local/bin/llama-server -m /m.gguf",
        ["/usr/local/bin/llama-server", "-m", "/m.gguf"], port=8080, engine="llama_server",
    ),
    Taken(
        "a venv with numactl", ". /srv/venv/bin/activate && numactl -N 0 -m 0 python3.11 -m sglang.launch_server",
        ["numactl", "-N", "0", "-m", "0", "/srv/venv/bin/python3.11", "-m", "sglang.launch_server"], port=30000,
        engine="sglang",
    ),
    Taken(
        "conda by its script", "source /opt/miniconda3/etc/profile.d/conda.sh\nconda activate sg\npython -m sglang.launch_server",
        ["/opt/miniconda3/envs/sg/bin/python", "-m", "sglang.launch_server"], port=30000, engine="sglang",
    ),
    Taken(
        "conda by its hook", 'eval "$(/opt/conda/bin/conda shell.bash hook)" && conda activate base && vllm serve /m',
        ["/opt/conda/bin/vllm", "serve", "/m"], port=8000, engine="vllm",
    ),
    Taken(
        "conda's own activate", "source /opt/conda/bin/activate sg && python -m sglang.launch_server",
        ["/opt/conda/envs/sg/bin/python", "-m", "sglang.launch_server"], port=30000, engine="sglang",
    ),
    Taken(
        "conda by folder", "conda activate /data/envs/sg && python -m sglang.launch_server",
        ["/data/envs/sg/bin/python", "-m", "sglang.launch_server"], port=30000, engine="sglang",
    ),
    Taken(
        "conda run by folder", "conda run --no-capture-output -p /data/envs/sg env A=1 python -m sglang.launch_server",
        ["/data/envs/sg/bin/python", "-m", "sglang.launch_server"], {"A": "1"}, port=30000, engine="sglang",
    ),
    Taken(
        "conda run of a known conda", "/opt/conda/bin/conda run --name=sg vllm serve /m --port 8100",
        ["/opt/conda/envs/sg/bin/vllm", "serve", "/m", "--port", "8100"], port=8100, engine="vllm",
    ),
    Taken(
        "uv run", "uv run --with sglang==0.5.23 python -m sglang.launch_server --model-path /m",
        ["uv", "run", "--with", "sglang==0.5.23", "python", "-m", "sglang.launch_server", "--model-path", "/m"],
        port=30000, engine="sglang", note="uv run without --frozen",
    ),
    Taken(
        "uv run --frozen", "uv run --frozen vllm serve /m", ["uv", "run", "--frozen", "vllm", "serve", "/m"], port=8000,
        engine="vllm",
    ),
    Taken(
        "numactl", "numactl --cpunodebind=0 --membind=0 python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B",
        ["numactl", "--cpunodebind=0", "--membind=0", *QWEN], port=30000, engine="sglang",
    ),
    Taken(
        "taskset, nice, ionice and stdbuf",
        "nohup taskset -c 0-31 nice -n -5 ionice -c2 -n0 stdbuf -oL vllm serve /m",
        ["taskset", "-c", "0-31", "nice", "-n", "-5", "ionice", "-c2", "-n0", "stdbuf", "-oL", "vllm", "serve", "/m"],
        port=8000, engine="vllm",
    ),
]  # fmt: skip

OTHERS = [
    Taken("vllm readme", "vllm serve Qwen/Qwen2.5-1.5B-Instruct", ["vllm", "serve", "Qwen/Qwen2.5-1.5B-Instruct"],
          port=8000, engine="vllm"),
    Taken(
        "vllm, the server's module", "python3 -m vllm.entrypoints.openai.api_server --model /m --port 8001",
        ["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "/m", "--port", "8001"], port=8001,
        engine="vllm",
    ),
    Taken(
        "vllm, speculative decoding", """vllm serve /m --speculative-config '{"method":"mtp","num_speculative_tokens":1}' -tp 8""",
        ["vllm", "serve", "/m", "--speculative-config", '{"method":"mtp","num_speculative_tokens":1}', "-tp", "8"],
        port=8000, engine="vllm",
    ),
    Taken(
        "vllm, dotted JSON flags", "VLLM_USE_V1=1 vllm serve /m --hf-overrides.rope_theta 1e6 --max-model-len 32k",
        ["vllm", "serve", "/m", "--hf-overrides.rope_theta", "1e6", "--max-model-len", "32k"], {"VLLM_USE_V1": "1"},
        port=8000, engine="vllm",
    ),
    Taken(
        "llama-server", "llama-server -m /models/q.gguf -c 32768 -ngl 99 --host 0.0.0.0 --port 8081 --jinja",
        ["llama-server", "-m", "/models/q.gguf", "-c", "32768", "-ngl", "99", "--host", "0.0.0.0", "--port", "8081",
         "--jinja"],
        port=8081, engine="llama_server",
    ),
    Taken(
        "llama-server by its folder", "cd /opt/llama.cpp && ./build/bin/llama-server -hf ggml-org/gemma-3-1b-it-GGUF",
        ["./build/bin/llama-server", "-hf", "ggml-org/gemma-3-1b-it-GGUF"], workdir="/opt/llama.cpp", port=8080,
        engine="llama_server",
    ),
    Taken(
        "llama-server with a template in quotes", """llama-server -m /m.gguf --chat-template "{% if x %}it's{% endif %}" """,
        ["llama-server", "-m", "/m.gguf", "--chat-template", "{% if x %}it's{% endif %}"], port=8080,
        engine="llama_server",
    ),
    Taken("text-generation-inference", "text-generation-launcher --model-id /m --port 8080",
          ["text-generation-launcher", "--model-id", "/m", "--port", "8080"], port=8080),
    Taken("a script", "bash start.sh --port 9000", ["bash", "start.sh", "--port", "9000"], port=9000),
    Taken("a price is no variable", "python serve.py --price 5$ --tag a#b", ["python", "serve.py", "--price", "5$", "--tag", "a#b"], port=8000),
    Taken("quotes that only look odd, in quotes", "vllm serve /m --served-model-name '“big” – one'",
          ["vllm", "serve", "/m", "--served-model-name", "“big” – one"], port=8000, engine="vllm"),
    Taken("a variable in single quotes is text", "vllm serve /m --prefix '$HOME/~'",
          ["vllm", "serve", "/m", "--prefix", "$HOME/~"], port=8000, engine="vllm"),
    Taken("quotes in the middle of a word", """vllm serve --name=a" b"'c'\\ d""", ["vllm", "serve", "--name=a bc d"],
          port=8000, engine="vllm"),
    Taken("compose, one line", "command: vllm serve /m --port 8000", ["vllm", "serve", "/m", "--port", "8000"], port=8000, engine="vllm"),
    Taken("compose, a list in brackets", '    command: ["vllm", "serve", "/m", "--max-model-len", "4096"]',
          ["vllm", "serve", "/m", "--max-model-len", "4096"], port=8000, engine="vllm"),
    Taken("compose, a list of lines", "command:\n  - vllm\n  - serve\n  - \"/m\"\n  - '--x'\n  - it's {\"a\": 1}\n",
          ["vllm", "serve", "/m", "--x", "it's {\"a\": 1}"], port=8000, engine="vllm"),
    Taken(
        "compose, folded", "    command: >\n      python3 -m sglang.launch_server\n      --model-path /m\n      --x '{\"a\": \"$$b\"}'\n",
        ["python3", "-m", "sglang.launch_server", "--model-path", "/m", "--x", '{"a": "$b"}'], port=30000,
        engine="sglang",
    ),
]  # fmt: skip

CONTAINERS = [
    Taken(
        "vllm readme in docker",
        "docker run --runtime nvidia --gpus all -v /data/hf:/root/.cache/huggingface -p 8000:8000 --ipc=host "
        "vllm/vllm-openai:latest --model Qwen/Qwen3-0.6B",
        ["--model", "Qwen/Qwen3-0.6B"], port=8000, engine="vllm",
        container=docker("vllm/vllm-openai:latest", "--runtime", "nvidia", "--gpus", "all", "-v",
                         "/data/hf:/root/.cache/huggingface", "-p", "8000:8000", "--ipc=host"),
    ),
    Taken(
        "sglang readme in docker",
        "docker run --gpus all \\\n    --shm-size 32g \\\n    -p 8000:30000 \\\n    -v /data/hf:/root/.cache/huggingface "
        "\\\n    --env HF_HUB_OFFLINE=1 \\\n    --ipc=host \\\n    lmsysorg/sglang:v0.5.9 \\\n    python3 -m "
        "sglang.launch_server --model-path Qwen/Qwen3-8B --host 0.0.0.0 --port 30000",
        [*QWEN, "--host", "0.0.0.0", "--port", "30000"], port=8000, engine="sglang",
        container=docker("lmsysorg/sglang:v0.5.9", "--gpus", "all", "--shm-size", "32g", "-p", "8000:30000", "-v",
                         "/data/hf:/root/.cache/huggingface", "--env", "HF_HUB_OFFLINE=1", "--ipc=host"),
    ),
    Taken(
        "in the background, with a name",
        "docker run -itd --restart unless-stopped --name sglang --gpus '\"device=0,1\"' --network host "
        "lmsysorg/sglang@sha256:0123 sglang serve /m --port 30005",
        ["sglang", "serve", "/m", "--port", "30005"], port=30005, engine="sglang", note="-d was left out",
        container=docker("lmsysorg/sglang@sha256:0123", "--restart", "unless-stopped", "--name", "sglang", "--gpus",
                         '"device=0,1"', "--network", "host"),
    ),
    Taken(
        "podman",
        "podman run --rm -dp 127.0.0.1:9000:8080/tcp --device nvidia.com/gpu=all --security-opt=label=disable "
        "-e LLAMA_ARG_CTX_SIZE=4096 ghcr.io/ggml-org/llama.cpp:server-cuda -m /models/x.gguf",
        ["-m", "/models/x.gguf"], port=9000, engine="llama_server",
        container=docker("ghcr.io/ggml-org/llama.cpp:server-cuda", "--rm", "-p", "127.0.0.1:9000:8080/tcp", "--device",
                         "nvidia.com/gpu=all", "--security-opt=label=disable", "-e", "LLAMA_ARG_CTX_SIZE=4096",
                         tool="podman"),
    ),
    Taken(
        "a secret by its name only", "docker container run -e HF_TOKEN --network=host --gpus=all vllm/vllm-openai:v0.11.0 /m",
        ["/m"], port=8000, engine="vllm",
        container=docker("vllm/vllm-openai:v0.11.0", "-e", "HF_TOKEN", "--network=host", "--gpus=all"),
    ),
    Taken(
        "a shell in the container",
        "docker run -v/m:/m -p8001:30000 --ulimit memlock=-1 lmsysorg/sglang bash -c 'python3 -m sglang.launch_server --port 30000'",
        ["bash", "-c", "python3 -m sglang.launch_server --port 30000"], port=8001, engine="sglang",
        container=docker("lmsysorg/sglang", "-v/m:/m", "-p8001:30000", "--ulimit", "memlock=-1"),
    ),
    Taken(
        "what is set for docker itself", "cd /srv && HF_HOME=/data/hf A=1 /usr/bin/docker run -e HF_HOME --net host img:1 vllm serve /m",
        ["vllm", "serve", "/m"], {"HF_HOME": "/data/hf", "A": "1"}, "/srv", port=8000, engine="vllm",
        note="A is set for docker itself", container=docker("img:1", "-e", "HF_HOME", "--net", "host"),
    ),
    Taken(
        "a range of ports, and nothing after the image", "docker run -p 9000-9010:7995-8005 nvcr.io/nim/meta/llama", [], port=9005,
        container=docker("nvcr.io/nim/meta/llama", "-p", "9000-9010:7995-8005"),
    ),
]  # fmt: skip

TAKEN = [*SGLANG, *ENVIRONMENTS, *OTHERS, *CONTAINERS]

REFUSED = [
    Refused("nothing", " \n ", "Write the command that starts the server"),
    Refused("only what stands in front", "export A=1", "Write the command that starts the server after it"),
    Refused("typographic quotes", "vllm serve /m --name “big one”", "“ is a typographic quote (left double quotation mark"),
    Refused("a typographic quote in JSON", "vllm serve /m --x ‘{}’", "‘ is a typographic quote"),
    Refused("a typographic dash", "vllm serve /m –port 8000", "– at the beginning of a word is a typographic dash (en dash"),
    Refused("two hyphens made one", "vllm serve /m —port 8000", "— at the beginning of a word is a typographic dash"),
    Refused("JSON without quotes", 'vllm serve /m --speculative-config {"method":"mtp"}', "JSON needs quotes around it"),
    Refused("a quote that is not closed", "vllm serve /m --x '{\"a\": 1}", "one ' is not closed"),
    Refused("the last line is missing", "vllm serve /m \\\n  --port 8000 \\\n", "ends with a backslash: is its last line missing"),
    Refused("a line that does not go on", "vllm serve /m\n  --port 8000", "A line begins with --port, but the line before"),
    Refused("a comment in the middle", "vllm serve /m \\\n  # --tp 2 \\\n  --port 8000", "A line begins with --port"),
    Refused("two commands", "vllm serve /m\nvllm serve /n", "Paste one command"),
    Refused("Windows' own way to go on", "vllm serve /m ^\n  --port 8000", "A line ends with ^, as Windows"),
    Refused("PowerShell's way to go on", "vllm serve /m `\r\n  --port 8000", "A line ends with a backtick, as PowerShell"),
    Refused("a variable", "MODEL=/m; vllm serve $MODEL", "MODEL is set for the shell only"),
    Refused("a variable of the login", "vllm serve $HOME/m", "'$HOME' would be filled in by a shell first"),
    Refused("a variable in double quotes", 'vllm serve "${MODEL_DIR}/m"', "'${MODEL_DIR}' would be filled in"),
    Refused("a variable of compose", "command: vllm serve ${MODEL}", "would be filled in by compose first"),
    Refused("the path, made longer", "export PATH=/srv/bin:$PATH; vllm serve /m", "'$PATH' would be filled in"),
    Refused("a home", "vllm serve ~/models/m", "~ would be filled in by a shell first. Write the full path"),
    Refused("a home in a variable", "HF_HOME=~/hf vllm serve /m", "~ would be filled in"),
    Refused("a home in a volume", "docker run -v ~/.cache/huggingface:/root/.cache vllm/vllm-openai", "~ would be filled in"),
    Refused("a command in the command", "vllm serve /m --host $(hostname -I)", "would be run by a shell first"),
    Refused("backticks", "vllm serve /m --host `hostname`", "would be run by a shell first"),
    Refused("one kind of shell's quotes", "vllm serve /m --x $'a\\n'", "is read by one kind of shell only"),
    Refused("a pipe", "vllm serve /m | grep -v INFO", "'|' needs a shell"),
    Refused("something afterwards", "vllm serve /m && echo ok", "'&&' needs a shell"),
    Refused("something else in the background", "sleep 5 & vllm serve /m", "'&' needs a shell"),
    Refused("text fed to it", "vllm serve /m << EOF", "<< feeds text to the program"),
    Refused("a bell in it", "vllm serve /m \a", "control character"),
    Refused("another user", "sudo -u llm vllm serve /m", "sudo runs the server as another user"),
    Refused("docker as root", "sudo docker run --gpus all img vllm serve /m", "sudo runs the server as another user"),
    Refused("a shell around it", 'bash -lc "vllm serve /m"', "bash -lc hides the command"),
    Refused("another host", "ssh gpu1 vllm serve /m", "ssh is not needed"),
    Refused("tmux", "tmux new -d -s llm 'vllm serve /m'", "tmux is not needed"),
    Refused("screen behind numactl", "numactl -N 0 screen -dmS x vllm serve /m", "screen is not needed"),
    Refused("slurm", "srun --gres=gpu:8 vllm serve /m", "srun hands the server to a scheduler"),
    Refused("a unit", "systemctl restart vllm", "systemctl only asks a manager"),
    Refused("compose", "docker compose up -d", "docker compose does not say how the container is made"),
    Refused("a container that is there", "docker start vllm", "docker start does not say how"),
    Refused("an environment that is somewhere", "source venv/bin/activate && vllm serve /m", "Where venv/bin/activate lies is not known"),
    Refused("an environment, up a folder", "cd /a && . ../venv/bin/activate && vllm serve /m", "goes up a folder"),
    Refused("a script of variables", "source /srv/env.sh && vllm serve /m", "would be run by a shell"),
    Refused("conda by name", "conda activate sg && vllm serve /m", "In which folder the conda environment 'sg' lies"),
    Refused("conda run by name", "conda run -n sg vllm serve /m", "for example /opt/conda/envs/sg/bin/python"),
    Refused("conda run of nothing", "conda run vllm serve /m", "names no environment"),
    Refused("a program that may be anywhere", ". /srv/venv/bin/activate && llama-server -m /m", "Write its full path, for example /srv/venv/bin/llama-server"),
    Refused("a limit", "ulimit -n 65535 && vllm serve /m", "'&&' needs a shell"),
    Refused("env without its variables", "env -i vllm serve /m", "env -i is not understood"),
    Refused("numactl of nothing", "numactl -N 0", "What numactl is to start is missing"),
    Refused("compose flags only", "command: --model /m --port 8000", "holds only flags, since its image starts the program"),
    Refused("a secret", "vllm serve /m --api-key abc123", "would show the secret"),
    Refused("a secret in a container", "docker run -e HF_TOKEN=abc123 --network host img vllm serve /m", "-e HF_TOKEN=... would show the secret"),
    Refused("a secret in a container, glued", "docker run -eHF_TOKEN=abc123 img vllm serve /m", "-e HF_TOKEN=... would show the secret"),
    Refused("a secret inside a container", "docker run --network host img vllm serve /m --api-key=abc123", "would show the secret"),
    Refused("a secret from the login, handed into a container", 'docker run --gpus all --env "HUGGING_FACE_HUB_TOKEN=$HF_TOKEN" --ipc=host vllm/vllm-openai --model /m', "Write -e HUGGING_FACE_HUB_TOKEN alone"),
    Refused("a secret from the login", "vllm serve /m --api-key $KEY", "--api-key would show the secret"),
    Refused("a secret from the login, in front", "HF_TOKEN=$(cat /abc123) vllm serve /m", "HF_TOKEN looks like a secret"),
    Refused("a secret and no program", "HF_TOKEN=abc123 --port 8000", "The command begins with a flag"),
    Refused("JSON on several lines", "vllm serve /m --x '{\n}'", "holds a line break"),
    Refused("the folder one is in", "docker run -v $(pwd):/w img vllm serve /m", "'$(pwd)' would be run by a shell first"),
    Refused("a novel", "vllm serve /m " + "x " * 5000, "too long"),
    Refused("a novel in one word", "vllm serve /m " + "x" * 150_000, "too long"),
    Refused("no image", "docker run --gpus all --ipc host", "The image is missing"),
    Refused("an option of nobody", "docker run --gpu all img vllm serve /m", "docker run --gpu is not an option that the panel knows"),
    Refused("an option without its value", "docker run --gpus", "needs a value after it"),
]  # fmt: skip

NO_PORT = [
    Refused("none published", "docker run --gpus all img vllm serve /m", "No port of the host leads into the container"),
    Refused("another published", "docker run -p 8000:8000 img vllm serve /m --port 9000", "listens on port 9000 in its container, but -p 8000:8000"),
    Refused("one at random", "docker run -p 8000 img vllm serve /m", "-p 8000 lets a port of the host be chosen at random"),
    Refused("one at random of an address", "docker run -p 127.0.0.1::8000 img vllm serve /m", "chosen at random"),
    Refused("the wrong kind", "docker run -p 8000:8000/udp img vllm serve /m", "leads to another one"),
]  # fmt: skip
