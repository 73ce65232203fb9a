#!/bin/sh
# Check the deployment files with the tools that are installed. Says which checks were left out.
#
#   sh deploy/check.sh
#
# The tools: hadolint, shellcheck, docker compose (or docker-compose), promtool, nginx, systemd-analyze.
# shellcheck disable=SC2317  # functions are called by `check`
set -eu
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

check() { # check TOOL NAME COMMAND...
  tool=$1 name=$2
  shift 2
  if ! command -v "$tool" >/dev/null; then
    echo "left out  $name: no $tool"
  elif "$@" >"$scratch/log" 2>&1; then
    echo "ok        $name"
  else
    echo "FAILED    $name"
    cat "$scratch/log"
    failed=1
  fi
}

compose() { # secrets need not exist for this
  mkdir -p "$scratch/deploy/secrets"
  cp compose.yaml "$scratch"
  echo PGPASSWORD=none > "$scratch/deploy/secrets/database.env"
  (cd "$scratch" && "$@" config -q)
}

nginx_test() { # names of workers and paths of certificates exist in containers only
  openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost \
    -keyout "$scratch/certificate-key.pem" -out "$scratch/certificate.pem" 2>/dev/null
  sed -e 's/worker-[123]:8000/127.0.0.1:8000/' -e "s|/etc/nginx/certificate|$scratch/certificate|" \
    -e 's/listen 443/listen 8443/' deploy/nginx/switchmdp.conf > "$scratch/site.conf"
  paths=$(for kind in client_body proxy fastcgi uwsgi scgi; do echo "${kind}_temp_path $scratch/$kind;"; done)
  printf 'pid %s/pid;\nerror_log stderr;\nevents {}\nhttp { access_log off;\n%s include %s/site.conf; }\n' \
    "$scratch" "$paths" "$scratch" > "$scratch/nginx.conf"
  nginx -t -c "$scratch/nginx.conf" -p "$scratch"
}

unit() { # the program is not installed here
  sed 's|^ExecStart=[^ ]*|ExecStart=/bin/true|' deploy/systemd/switchmdp.service > "$scratch/switchmdp.service"
  systemd-analyze verify "$scratch/switchmdp.service"
}

check hadolint "Dockerfile" hadolint Dockerfile
check shellcheck "scripts" shellcheck deploy/check.sh deploy/make-secrets.sh
if docker compose version >/dev/null 2>&1; then
  check docker "compose.yaml" compose docker compose
else
  check docker-compose "compose.yaml" compose docker-compose
fi
check promtool "Prometheus configuration" promtool check config --syntax-only deploy/prometheus/prometheus.yml
check promtool "alert rules" promtool check rules deploy/prometheus/alerts.yml
check nginx "nginx configuration" nginx_test
check systemd-analyze "systemd unit" unit
check python3 "Grafana dashboard is JSON" python3 -m json.tool deploy/grafana/dashboards/switchmdp.json
exit "$failed"
