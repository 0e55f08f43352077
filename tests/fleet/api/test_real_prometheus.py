"""A real Prometheus scrapes a real server: /metrics, and /metrics/gpus with every reading."""

import subprocess
import sys
import time
from pathlib import Path

from tests.fleet.store.prometheus import prometheus
from tests.serving import ROOT, Server, serve
from tests.speaking import batch, hello, speak


def api_token(server: Server, name: str) -> str:
    """A token of a new person."""
    server.session(name)
    done = subprocess.run(
        [sys.executable, "manage.py", "api_token", name, "prometheus"],
        cwd=ROOT,
        env=server.env,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def scrape(server: Server, job: str, path: str, token: Path, more: str = "") -> str:
    """A scrape configuration."""
    return (
        f"- job_name: {job}\n  metrics_path: {path}\n  authorization: {{credentials_file: {token}}}\n{more}"
        f"  static_configs: [{{targets: ['127.0.0.1:{server.port}']}}]\n"
    )


async def test_what_agents_send_is_what_prometheus_has(tmp_path: Path) -> None:
    """Both pages are up for it, and the values are those sent."""
    with serve(tmp_path / "data", {"FETTLE_METRICS_GPUS": "1"}) as server:
        token = tmp_path / "token"
        token.write_text(api_token(server, "prometheus"))
        scrapes = scrape(server, "fettle", "/metrics", token) + scrape(
            server, "gpus", "/metrics/gpus", token, "  params: {scope: [gpu, host]}\n"
        )
        with prometheus(tmp_path / "prometheus", scrapes) as program:
            async with speak(server.agents, server.token("n")) as agent:
                said = await agent.greet(hello("n", gpus=2))
                for seq in range(6):
                    await agent.say(batch(said, seq, time.time(), {"power_w": 512.25, "gpu_util_pct": 40.0}, {"load_1min": 3.5}))
                    await agent.acked(seq)
                ((labels, power), _) = sorted(program.until("fettle_gpu_power_w"), key=lambda one: one[0]["gpu"])

                assert power == 512.25
                assert labels.items() >= {"Hostname": "n", "UUID": "GPU-n-0", "gpu": "0", "modelName": "NVIDIA H200"}.items()
                assert program.until("fettle_host_load_1min")[0][1] == 3.5
                assert program.until('fettle_nodes{state="ok"} == 1')
                assert program.until("fettle_fleet_power_w_gsum")[0][1] == 1024.5
                assert program.until('histogram_quantile(0.5, fettle_fleet_gpu_util_pct_bucket{model="NVIDIA H200"})')
                assert program.until('fettle_ingest_rows_total{scope="gpu"} >= 12')
                assert program.until("fettle_ingest_agents == 1")
                assert {value for _, value in program.query("up")} == {1.0}
        log = (tmp_path / "prometheus" / "prometheus.log").read_text()
        assert "Error on ingesting" not in log
        assert "Traceback" not in server.log.read_text()
