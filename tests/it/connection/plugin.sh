#!/bin/sh
# A credential plugin. It notes what it was told, and what could be read from stdin.
calls=$(wc -l <"$HOME/calls" 2>/dev/null || echo 0)
info=$(printf %s "$KUBERNETES_EXEC_INFO" | tr -d '\n')
read -r typed
printf '%s\t%s\t%s\n' "$typed" "$MARK" "$info" >>"$HOME/calls"
version=$(printf %s "$info" | sed 's/.*"apiVersion":"\([^"]*\)".*/\1/')
gives() {
    printf '{"kind":"ExecCredential","apiVersion":"%s","status":{%s}}\n' "$version" "$1"
}
case $1 in
token) gives '"token":"from-plugin"' ;;
certificate) cat "$HOME/.kube/credential.json" ;;
# The first token is good for one request.
once) if [ "$calls" -eq 0 ]; then gives '"token":"once"'; else gives '"token":"renewed"'; fi ;;
refused) gives '"token":"refused"' ;;
other)
    version=client.authentication.k8s.io/v9
    gives '"token":"from-plugin"'
    ;;
words) echo token: from-plugin ;;
fail)
    echo no login >&2
    exit 3
    ;;
esac
