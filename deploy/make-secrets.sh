#!/bin/sh
# Make the secrets of compose.yaml in deploy/secrets. Files that exist are kept.
set -eu
cd "$(dirname "$0")/secrets"
umask 077

secret() { [ -s "$1" ] || openssl rand -hex 24 > "$1"; }

secret token
secret metrics-token
secret database-password
secret grafana-password
[ -s database.env ] || echo "PGPASSWORD=$(cat database-password)" > database.env
[ -s certificate.pem ] || openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj /CN=localhost \
  -addext "subjectAltName=DNS:localhost" -keyout certificate-key.pem -out certificate.pem 2>/dev/null
# The containers do not run as the owner of these files. The folder stays closed to other users.
chmod 0444 ./*
chmod 0700 .
