#!/bin/sh
# Finds Java 17 or newer, installs it from the system's packages where it may, and prints its home.
#
# stdout: the Java home, one line, nothing else. stderr: progress, and on failure what to do.
# Order: $JAVA_HOME, java on PATH, well-known directories, the system's packages.
# WINDROW_NO_INSTALL=1 forbids the last one.
set -eu

WANTED=17

# The major version of the java of a home; nothing if there is none that runs.
major_of() {
    [ -x "$1/bin/java" ] || return 0
    "$1/bin/java" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1
}

# Ends the script with this home if its Java is new enough.
take() {
    major=$(major_of "$1")
    if [ -n "$major" ] && [ "$major" -ge "$WANTED" ]; then
        echo "Java $major: $1" >&2
        echo "$1"
        exit 0
    fi
}

home_of_path_java() {
    found=$(command -v java 2>/dev/null) || return 0
    # A launcher on PATH may be a link or a wrapper, so Java itself is asked where it lives.
    "$found" -XshowSettings:properties -version 2>&1 | sed -n 's/^ *java\.home = //p' | head -n 1
}

look_around() {
    if [ -n "${JAVA_HOME:-}" ]; then
        take "$JAVA_HOME"
        echo "JAVA_HOME ($JAVA_HOME) holds no Java $WANTED or newer: looking elsewhere." >&2
    fi
    home=$(home_of_path_java)
    [ -z "$home" ] || take "$home"
    for home in /usr/lib/jvm/* /usr/java/* /opt/java/* /opt/jdk* /opt/jre* /usr/local/java/* /usr/local/openjdk* \
        "${HOME:-/nonexistent}"/.sdkman/candidates/java/* "${HOME:-/nonexistent}"/.jdks/*; do
        take "$home"
    done
}

# Root as it is, or through a sudo that asks nothing; fails if neither.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        sudo -n "$@"
    else
        return 1
    fi
}

install_with() { # the first of the packages that the manager can install
    for package in $packages; do
        echo "Java $WANTED or newer is missing: trying to install $package from the system's packages ..." >&2
        if as_root "$@" "$package" >&2; then
            return 0
        fi
    done
    return 1
}

install_java() {
    [ -z "${WINDROW_NO_INSTALL:-}" ] || return 1
    as_root true || return 1
    if command -v apt-get >/dev/null 2>&1; then
        packages="openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless"
        as_root apt-get update -qq >&2 || true
        install_with env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends
    elif command -v dnf >/dev/null 2>&1; then
        packages="java-17-openjdk-headless java-21-openjdk-headless java-latest-openjdk-headless"
        install_with dnf install -y -q
    elif command -v apk >/dev/null 2>&1; then
        packages="openjdk17-jre-headless openjdk21-jre-headless"
        install_with apk add -q
    else
        return 1
    fi
}

look_around
if install_java; then
    look_around
fi
cat >&2 <<'MESSAGE'
Windrow needs Java 17 or newer, and none was found or could be installed here. Do one of these, then try again:
  Debian, Ubuntu:  sudo apt-get install openjdk-17-jre-headless    (or openjdk-21-jre-headless)
  Fedora, RHEL:    sudo dnf install java-17-openjdk-headless       (or java-21-openjdk-headless)
  Alpine:          sudo apk add openjdk17-jre-headless
  without root:    unpack a JRE 17+ from https://adoptium.net and set JAVA_HOME to its folder
MESSAGE
exit 1
