#!/usr/bin/env bash
# Runs every suite on real servers. What does not answer is installed (Debian's packages) and started for the time of the run.
#
#   ./test.sh                                          all suites
#   ./test.sh cargo test -p idem-tests --test mysql    one command, with the servers up
#
# IDEM_TEST_POSTGRES, IDEM_TEST_MYSQL and IDEM_TEST_AMQP say where servers are already running.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

export IDEM_TEST_POSTGRES=${IDEM_TEST_POSTGRES:-postgres://postgres@127.0.0.1:5432/postgres}
export IDEM_TEST_MYSQL=${IDEM_TEST_MYSQL:-mysql://root@127.0.0.1:3306/}
export IDEM_TEST_AMQP=${IDEM_TEST_AMQP:-amqp://guest:guest@127.0.0.1:5672/%2f}

# Debian keeps servers where a user's PATH does not look.
PATH=$PATH:/usr/sbin:/sbin

scratch=
started=()
policy=

say() { printf '\n== %s\n' "$*" >&2; }

fail() {
    printf '\ntest.sh: %s\n' "$*" >&2
    exit 1
}

# Stops what this script has started, and nothing else: each server leads a process group of its own, so that its helpers end with it.
clean_up() {
    local group
    for group in ${started[@]+"${started[@]}"}; do
        kill -TERM -- "-$group" 2>/dev/null || true
    done
    for group in ${started[@]+"${started[@]}"}; do
        for _ in {1..100}; do
            kill -0 -- "-$group" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL -- "-$group" 2>/dev/null || true
    done
    wait
    if [[ $scratch ]]; then rm -rf "$scratch"; fi
    if [[ $policy ]]; then root rm -f "$policy"; fi
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Splits URL into user, password, host and port, which the caller declares. The port's default is DEFAULT.
split() { # URL DEFAULT
    [[ $1 =~ ^[a-z]+://(([^:@/]*)(:([^@/]*))?@)?([^:/?]+)(:([0-9]+))? ]] || fail "not a URL of a server: $1"
    user=${BASH_REMATCH[2]} password=${BASH_REMATCH[4]} host=${BASH_REMATCH[5]} port=${BASH_REMATCH[7]:-$2}
}

listens() { # HOST PORT
    timeout 5 bash -c 'exec 3<>"/dev/tcp/$0/$1"' "$1" "$2" 2>/dev/null
}

# A database answers if it lets the user in. Without a client here, an open port has to do, and the suites will tell.
postgres_answers() {
    local user password host port
    split "$IDEM_TEST_POSTGRES" 5432
    listens "$host" "$port" || return 1
    command -v psql >/dev/null || return 0
    PGCONNECT_TIMEOUT=5 psql --no-password --no-psqlrc -qAtc 'SELECT 1' "$IDEM_TEST_POSTGRES" >/dev/null 2>&1 </dev/null
}

mysql_answers() {
    local user password host port
    split "$IDEM_TEST_MYSQL" 3306
    listens "$host" "$port" || return 1
    command -v mariadb >/dev/null || return 0
    MYSQL_PWD=$password mariadb --no-defaults --protocol=tcp --connect-timeout=5 \
        --host="$host" --port="$port" --user="$user" -e 'SELECT 1' >/dev/null 2>&1 </dev/null
}

# RabbitMQ has no client for AMQP in its package, but it answers the protocol's greeting with a method frame (type 1).
amqp_answers() {
    local user password host port
    split "$IDEM_TEST_AMQP" 5672
    # shellcheck disable=SC2016 # The inner bash expands these.
    [[ $(timeout 5 bash -c '
        exec 3<>"/dev/tcp/$0/$1"
        printf "AMQP\0\0\11\1" >&3
        head -c1 <&3 | od -An -tu1' "$host" "$port" 2>/dev/null) == *1 ]]
}

# Prints PORT if nobody listens there, otherwise another one below the range of outgoing connections.
free_port() { # PORT
    local port=$1
    while listens 127.0.0.1 "$port"; do port=$((20000 + RANDOM % 10000)); done
    echo "$port"
}

# Runs a command as root.
root() {
    if [[ $(id -u) == 0 ]]; then "$@"; else sudo -n "$@"; fi
}

install_packages() { # PACKAGE...
    command -v apt-get >/dev/null || fail "missing: $*, which this script can install on Debian and its like only"
    root true 2>/dev/null || fail "missing, and this user cannot install them: sudo apt-get install --no-install-recommends $*"
    say "installing $*"
    # The packages would start services of their own, on all interfaces and beyond this run.
    if [[ ! -e /usr/sbin/policy-rc.d ]]; then
        policy=/usr/sbin/policy-rc.d
        printf '#!/bin/sh\nexit 101\n' | root tee "$policy" >/dev/null
        root chmod 755 "$policy"
    fi
    local apt=(root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 -qq)
    "${apt[@]}" update >&2 </dev/null || say "apt-get update failed: trying with the package lists that are there"
    "${apt[@]}" install -y --no-install-recommends "$@" >&2 </dev/null || fail "apt-get could not install $*"
    if [[ $policy ]]; then root rm -f "$policy"; fi
    policy=
}

# Prints the prefix that runs a command as USER if this is root: the servers refuse to run as root, and bring a user of their own.
as() { # USER
    if [[ $(id -u) == 0 ]]; then echo "setpriv --reuid=$1 --regid=$1 --init-groups"; fi
}

# Starts a server in a process group of its own, which keeps the terminal's Ctrl-C away from it: `clean_up` stops it. Should this
# script be killed before that, the kernel does.
start() { # USER LOG COMMAND...
    local user=$1 log=$2
    shift 2
    # shellcheck disable=SC2046 # Several words, or none.
    setsid $(as "$user") setpriv --pdeathsig TERM "$@" >"$log" 2>&1 </dev/null &
    started+=("$!")
}

directory() { # USER NAME
    scratch=${scratch:-$(mktemp -d "${TMPDIR:-/tmp}/idem-test.XXXXXX")}
    chmod 711 "$scratch"
    mkdir "$scratch/$2"
    if [[ $(id -u) == 0 ]]; then chown "$1:" "$scratch/$2"; fi
}

await() { # NAME LOG CHECK
    for _ in {1..240}; do
        if "$3"; then return; fi
        kill -0 "${started[-1]}" 2>/dev/null || break
        sleep 0.25
    done
    tail -n 40 "$2" >&2 || true
    fail "$1 did not start; the end of its log is above"
}

# Prints the directory of PostgreSQL's programs, which Debian keeps out of PATH: the newest version's.
postgres_bin() {
    local bin
    bin=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n1)
    [[ -x $bin/initdb ]] || bin=$(dirname "$(command -v initdb)")
    [[ -x $bin/initdb ]] && echo "$bin"
}

start_postgres() {
    local bin port data log
    bin=$(postgres_bin) || fail "PostgreSQL is installed without initdb"
    port=$(free_port 5432)
    say "PostgreSQL does not answer at IDEM_TEST_POSTGRES: starting a throw-away cluster on port $port"
    directory postgres postgres
    data=$scratch/postgres/data log=$scratch/postgres.log
    (cd / && $(as postgres) "$bin/initdb" -D "$data" -U postgres --auth=trust --encoding=UTF8 --locale=C.UTF-8 --no-sync) >"$log" 2>&1 ||
        { cat "$log" >&2 && fail "initdb failed"; }
    # No fsync: what has to survive here is a killed process, not a power cut.
    start postgres "$log" "$bin/postgres" -D "$data" -p "$port" -h 127.0.0.1 -k "$scratch/postgres" -c fsync=off -c max_connections=200
    export IDEM_TEST_POSTGRES=postgres://postgres@127.0.0.1:$port/postgres
    await PostgreSQL "$log" postgres_answers
}

start_mysql() {
    local port data log
    port=$(free_port 3306)
    say "MariaDB does not answer at IDEM_TEST_MYSQL: starting a throw-away server on port $port"
    directory mysql mysql
    data=$scratch/mysql/data log=$scratch/mysql.log
    $(as mysql) mkdir "$data"
    $(as mysql) mariadb-install-db --no-defaults --datadir="$data" --auth-root-authentication-method=normal --skip-test-db \
        --skip-name-resolve >"$log" 2>&1 || { cat "$log" >&2 && fail "mariadb-install-db failed"; }
    start mysql "$log" mariadbd --no-defaults --datadir="$data" --tmpdir="$scratch/mysql" --socket="$scratch/mysql/socket" \
        --pid-file="$scratch/mysql/pid" --port="$port" --bind-address=127.0.0.1 --skip-name-resolve --max-connections=300 \
        --innodb-flush-log-at-trx-commit=2
    export IDEM_TEST_MYSQL=mysql://root@127.0.0.1:$port/
    await MariaDB "$log" mysql_answers
}

start_amqp() {
    local port epmd_port base log
    port=$(free_port 5672)
    epmd_port=$(free_port 24369)
    say "RabbitMQ does not answer at IDEM_TEST_AMQP: starting a throw-away node on port $port"
    directory rabbitmq rabbitmq
    base=$scratch/rabbitmq log=$scratch/rabbitmq.log
    # Erlang would start its port mapper as a daemon that outlives the node.
    start rabbitmq "$scratch/epmd.log" epmd -address 127.0.0.1 -port "$epmd_port"
    # Not Debian's wrapper in /usr/sbin, which insists on its own user and directories. ALLOW_INPUT keeps the shell from staying
    # between this script and the node.
    start rabbitmq "$log" env \
        HOME="$base" ERL_EPMD_ADDRESS=127.0.0.1 ERL_EPMD_PORT="$epmd_port" RABBITMQ_NODENAME="idem-$$@localhost" \
        RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT="$port" RABBITMQ_DIST_PORT="$(free_port 25672)" \
        RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1}' \
        RABBITMQ_CONF_ENV_FILE="$base/none" RABBITMQ_CONFIG_FILE="$base/none" RABBITMQ_ADVANCED_CONFIG_FILE="$base/none" \
        RABBITMQ_ENABLED_PLUGINS_FILE="$base/plugins" RABBITMQ_MNESIA_BASE="$base/mnesia" RABBITMQ_LOG_BASE="$base/log" \
        RABBITMQ_GENERATED_CONFIG_DIR="$base/config" RABBITMQ_SCHEMA_DIR="$base/schema" RABBITMQ_ALLOW_INPUT=1 \
        /usr/lib/rabbitmq/bin/rabbitmq-server -noinput
    export IDEM_TEST_AMQP=amqp://guest:guest@127.0.0.1:$port/%2f
    await RabbitMQ "$log" amqp_answers
}

missing=()
command -v cargo >/dev/null || fail "cargo is missing: https://rustup.rs"
# The bundled SQLite is compiled, and everything is linked.
command -v cc >/dev/null || missing+=(gcc libc6-dev)
# Also where both answer: the tests of clocks start servers of their own, whose time libfaketime moves.
postgres_bin >/dev/null || missing+=(postgresql)
{ command -v mariadbd && command -v mariadb-install-db; } >/dev/null || missing+=(mariadb-server)
compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null || missing+=(libfaketime)
# Those of failovers, poolers and brokers start theirs, too.
[[ -e /usr/lib/galera/libgalera_smm.so ]] || missing+=(galera-4)
command -v rsync >/dev/null || missing+=(rsync)
command -v pgbouncer >/dev/null || missing+=(pgbouncer)
command -v nats-server >/dev/null || missing+=(nats-server)
amqp_answers || [[ -x /usr/lib/rabbitmq/bin/rabbitmq-server ]] || missing+=(rabbitmq-server)
if [[ ${#missing[@]} != 0 ]]; then install_packages "${missing[@]}"; fi

# Asked again, since an installation may have started its service despite the above.
postgres_answers || start_postgres
mysql_answers || start_mysql
amqp_answers || start_amqp

if [[ $# != 0 ]]; then
    [[ $1 != -- ]] || shift
    "$@"
    exit
fi

# One set of features for all steps, so that nothing is built twice.
all=(--locked --workspace --all-features --no-fail-fast)
say "building the suites"
cargo test "${all[@]}" --no-run
say "unit tests"
cargo test "${all[@]}" --lib --bins
say "the promises on SQLite, PostgreSQL and MariaDB, the expansion, the messages, the examples, the repository"
cargo test "${all[@]}" --test '*'
say "the documentation's examples"
cargo test "${all[@]}" --doc
say "all suites passed"
